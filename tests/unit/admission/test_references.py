"""Reference media: what comes together, how many, and the task that follows."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from able import make_able, make_reference
from vitascope.admission import Admitted, check_counts, check_together
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.jobs import ReferenceRole
from vitascope.contracts.models import Task

Admit = Callable[..., Admitted]
IMAGE, VIDEO, SOUND, CONTROL = (ReferenceRole(name) for name in ("image", "video", "audio", "control"))
ALL = make_able(
    Task.I2V,
    Task.V2V,
    Task.S2V,
    Task.CONTROL,
    max_images=9,
    max_videos=3,
    max_audios=3,
    mixes_references=True,
    control_types=("edge",),
)


@pytest.mark.parametrize(
    ("names", "param"),
    [
        pytest.param({"input_reference", "image_reference"}, "input_reference", id="input-image"),
        pytest.param({"input_reference", "video_reference"}, "input_reference", id="input-video"),
        pytest.param({"input_references", "input_reference"}, "input_references", id="inputs-input"),
        pytest.param({"input_references", "image_reference"}, "input_references", id="inputs-image"),
        pytest.param({"input_references", "video_reference"}, "input_references", id="inputs-video"),
        pytest.param({"input_references", "audio_reference"}, "input_references", id="inputs-audio"),
        pytest.param({"control_reference"}, "control_type", id="control-without-type"),
        pytest.param({"control_type"}, "control_reference", id="type-without-control"),
        pytest.param({"source_video"}, "source_video", id="source-without-mask"),
        pytest.param({"source_audio"}, "source_audio", id="sound-without-mask"),
        pytest.param({"source_video", "source_audio", "video_noise_mask"}, "source_audio", id="sound-with-video-mask"),
    ],
)
def test_fields_that_exclude_or_need_each_other(names: set[str], param: str) -> None:
    """Known from the names alone, before any media is read."""
    with pytest.raises(VitascopeError) as caught:
        check_together({"prompt"} | names)
    assert (FailureCode.INVALID_REQUEST, param) == (caught.value.code, caught.value.param)


@pytest.mark.parametrize(
    "names",
    [
        pytest.param({"image_reference", "video_reference", "audio_reference"}, id="one-of-each"),
        pytest.param({"input_reference", "audio_reference"}, id="talking-head"),
        pytest.param({"control_reference", "control_type"}, id="control"),
        pytest.param({"source_video", "video_noise_mask"}, id="edit"),
        pytest.param({"source_audio", "audio_noise_mask"}, id="edit-of-sound"),
        pytest.param({"source_video", "audio_noise_mask"}, id="edit-of-a-films-sound"),
    ],
)
def test_fields_that_may_come_together(names: set[str]) -> None:
    """Whether the model takes them is another question."""
    check_together(names)


@pytest.mark.parametrize(
    ("roles", "changes", "code", "param"),
    [
        pytest.param([IMAGE], {"max_images": 0}, FailureCode.CAPABILITY_MISSING, "image_reference", id="no-images"),
        pytest.param([VIDEO], {"max_videos": 0}, FailureCode.CAPABILITY_MISSING, "video_reference", id="no-videos"),
        pytest.param([SOUND], {"max_audios": 0}, FailureCode.CAPABILITY_MISSING, "audio_reference", id="no-audio"),
        pytest.param([CONTROL], {"control_types": ()}, FailureCode.CAPABILITY_MISSING, "control_reference", id="none"),
        pytest.param([CONTROL] * 2, {}, FailureCode.INVALID_REQUEST, "control_reference", id="two-controls"),
        pytest.param([IMAGE] * 10, {}, FailureCode.INVALID_REQUEST, "image_reference", id="ten-images"),
        pytest.param([IMAGE] * 9 + [VIDEO] * 3 + [SOUND], {}, FailureCode.INVALID_REQUEST, "input_references", id="13"),
        pytest.param(
            [IMAGE, VIDEO], {"mixes_references": False}, FailureCode.INVALID_REQUEST, "video_reference", id="mixed"
        ),
    ],
)
def test_more_than_the_model_takes_is_refused(
    roles: list[ReferenceRole], changes: Mapping[str, Any], code: FailureCode, param: str
) -> None:
    """Each kind, all together, and mixtures."""
    able = ALL.model_copy(update={"capabilities": ALL.capabilities.model_copy(update=changes)})
    with pytest.raises(VitascopeError) as caught:
        check_counts(roles, able)
    assert (code, param) == (caught.value.code, caught.value.param)


def test_as_many_as_the_model_takes() -> None:
    """Twelve in all."""
    check_counts([IMAGE] * 9 + [VIDEO] * 3, ALL)
    check_counts([], ALL)


@pytest.mark.parametrize(
    ("roles", "field", "task"),
    [
        pytest.param([], {}, Task.T2V, id="text"),
        pytest.param([IMAGE], {"input_reference": "x"}, Task.I2V, id="image"),
        pytest.param([VIDEO], {"input_reference": "x"}, Task.V2V, id="video"),
        pytest.param([IMAGE, VIDEO], {"input_references": ["x"]}, Task.V2V, id="mixed"),
        pytest.param([SOUND, IMAGE], {"audio_reference": {}, "image_reference": {}}, Task.S2V, id="sound"),
        pytest.param([CONTROL], {"control_reference": "x", "control_type": "edge"}, Task.CONTROL, id="control"),
    ],
)
def test_the_media_makes_the_task(
    admit_body: Admit, roles: list[ReferenceRole], field: dict[str, Any], task: Task
) -> None:
    """And is kept in its order."""
    references = [make_reference(role) for role in roles]
    request = admit_body(ALL, references, **field).request
    assert task is request.task
    assert tuple(references) == request.references


@pytest.mark.parametrize(
    "field", ["input_reference", "image_reference", "video_reference", "audio_reference", "control_reference"]
)
def test_text_where_a_file_belongs_is_refused(admit_body: Admit, field: str) -> None:
    """A field of the body that no media was read from."""
    with pytest.raises(VitascopeError) as caught:
        admit_body(ALL, **{field: "a.png"}, **({"control_type": "edge"} if field == "control_reference" else {}))
    assert (FailureCode.INVALID_REQUEST, field) == (caught.value.code, caught.value.param)


def test_a_model_that_needs_an_image_says_so(admit_body: Admit) -> None:
    """Text alone is refused by the field that is missing."""
    able = make_able(max_images=1).model_copy(update={"tasks": (Task.I2V,)})
    with pytest.raises(VitascopeError, match="it does i2v, not t2v") as caught:
        admit_body(able)
    assert "image_reference" == caught.value.param
    with pytest.raises(VitascopeError) as caught:
        admit_body(make_able(max_images=1), [make_reference(IMAGE)])
    assert (FailureCode.CAPABILITY_MISSING, "image_reference") == (caught.value.code, caught.value.param)
