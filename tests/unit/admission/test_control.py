"""Control uploads: types, options, files."""

from collections.abc import Callable
from typing import Any

import pytest

from able import make_able, make_reference
from vitascope.admission import Admitted, check_control_file, check_source_file
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.jobs import ReferenceRole
from vitascope.contracts.models import Extra, ModelEntry, Task

Admit = Callable[..., Admitted]
TYPES = ("edge", "blur", "depth", "seg", "wsm")


def _entry() -> ModelEntry:
    options = {"control_weight": Extra(type="number", minimum=0, maximum=2)}
    return make_able(Task.CONTROL, control_types=TYPES, control_options=options)


def _admit(admit_body: Admit, entry: ModelEntry | None = None, **body: Any) -> Admitted:
    control = make_reference(ReferenceRole.CONTROL)
    return admit_body(entry or _entry(), [control], **{"control_reference": True, "control_type": "edge"} | body)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        *(pytest.param(name, name, id=name) for name in TYPES),
        pytest.param("  EDGE ", "edge", id="blanks-and-capitals"),
    ],
)
def test_declared_types_are_taken(admit_body: Admit, given: str, kept: str) -> None:
    """Without blanks around them, in lower case."""
    request = _admit(admit_body, control_type=given).request
    assert (kept, Task.CONTROL, {}) == (request.control_type, request.task, request.extra_params)


@pytest.mark.parametrize(
    ("given", "code"),
    [
        pytest.param("pose", FailureCode.CAPABILITY_MISSING, id="not-declared"),
        pytest.param("  ", FailureCode.INVALID_REQUEST, id="blank"),
        pytest.param("", FailureCode.INVALID_REQUEST, id="empty"),
        pytest.param(1, FailureCode.INVALID_REQUEST, id="number"),
    ],
)
def test_other_types_are_refused(admit_body: Admit, given: object, code: FailureCode) -> None:
    """With those that there are."""
    with pytest.raises(VitascopeError) as caught:
        _admit(admit_body, control_type=given)
    assert (code, "control_type") == (caught.value.code, caught.value.param)
    if code is FailureCode.CAPABILITY_MISSING:
        assert 'edge, blur, depth, seg, wsm, not "pose"' in str(caught.value)


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        pytest.param(True, {}, id="true"),
        pytest.param(None, {}, id="null"),
        pytest.param({}, {}, id="empty"),
        pytest.param({"control_weight": 0.5}, {"edge": {"control_weight": 0.5}}, id="weight"),
        pytest.param({"control_weight": None}, {}, id="null-inside"),
    ],
)
def test_options_of_the_type_stay(admit_body: Admit, options: object, kept: dict[str, Any]) -> None:
    """Those that the model declares."""
    assert kept == _admit(admit_body, extra_params={"edge": options}).request.extra_params


@pytest.mark.parametrize(
    ("extras", "code", "param"),
    [
        pytest.param({"edge": False}, FailureCode.INVALID_REQUEST, "extra_params", id="false"),
        pytest.param({"edge": "yes"}, FailureCode.INVALID_REQUEST, "extra_params", id="text"),
        pytest.param({"edge": {"control_path": "/etc/passwd"}}, FailureCode.INVALID_REQUEST, "extra_params", id="path"),
        pytest.param({"edge": {"control": "x"}}, FailureCode.INVALID_REQUEST, "extra_params", id="control"),
        pytest.param({"edge": {"control": None}}, FailureCode.INVALID_REQUEST, "extra_params", id="control-null"),
        pytest.param(
            {"edge": {"control_weight": 3}}, FailureCode.INVALID_REQUEST, "extra_params.edge.control_weight", id="bound"
        ),
        pytest.param(
            {"edge": {"blur": 3}}, FailureCode.CAPABILITY_MISSING, "extra_params.edge.blur", id="not-declared"
        ),
        pytest.param({"depth": {}}, FailureCode.CAPABILITY_MISSING, "extra_params.depth", id="of-another-type"),
    ],
)
def test_other_options_are_refused(admit_body: Admit, extras: object, code: FailureCode, param: str) -> None:
    """A path of the server's own above all."""
    with pytest.raises(VitascopeError) as caught:
        _admit(admit_body, extra_params=extras)
    assert (code, param) == (caught.value.code, caught.value.param)


@pytest.mark.parametrize("name", ["a.png", "a.JPEG", "clip.mp4", "x/y.mkv", "..\\a.webm", "a.mov", "noname", "", None])
def test_files_that_may_hold_a_control(name: str | None) -> None:
    """By their suffix; none at all is looked into by the media reader."""
    check_control_file(name, "application/octet-stream")


@pytest.mark.parametrize(
    ("name", "media_type"),
    [
        pytest.param("a.avi", "video/x-msvideo", id="avi"),
        pytest.param("a.txt", "text/plain", id="text"),
        pytest.param("a.wav", None, id="sound-by-name"),
        pytest.param("a.mp4", "Audio/mp4", id="sound-by-type"),
        pytest.param(None, "audio/wav", id="sound-without-name"),
        pytest.param("a.png/../a.sh", "image/png", id="last-suffix-counts"),
    ],
)
def test_files_that_may_not(name: str | None, media_type: str | None) -> None:
    """Before a byte is read."""
    with pytest.raises(VitascopeError, match="bmp, gif") as caught:
        check_control_file(name, media_type)
    assert (FailureCode.MEDIA_INVALID, "control_reference") == (caught.value.code, caught.value.param)


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        pytest.param("source_video", ["a.mp4", "A.MOV"], ["a.mkv", "a", None], id="video"),
        pytest.param("source_audio", ["a.wav", "a.MP3"], ["a.mp4", "a.flac", ""], id="audio"),
    ],
)
def test_sources_of_an_edit(field: str, good: list[str], bad: list[str | None]) -> None:
    """Two suffixes each, and one there must be."""
    for name in good:
        check_source_file(field, name)
    for other in bad:
        with pytest.raises(VitascopeError) as caught:
            check_source_file(field, other)
        assert field == caught.value.param
