"""What a model asks of its references, in MiniMax H3's figures."""

from collections.abc import Callable
from typing import Any

import pytest

from able import make_able, make_reference
from vitascope.admission import Admitted
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.jobs import Reference, ReferenceRole
from vitascope.contracts.models import MediaRule, ModelEntry, Task

Admit = Callable[..., Admitted]
SIDES: dict[str, Any] = {"min_side_px": 256, "max_side_px": 5760, "min_ratio": 0.4, "max_ratio": 2.5}
LENGTHS: dict[str, Any] = {"min_s": 2, "max_s": 15, "max_total_s": 15}


def _entry() -> ModelEntry:
    return make_able(
        Task.I2V,
        Task.V2V,
        Task.S2V,
        max_images=9,
        max_videos=3,
        max_audios=3,
        mixes_references=True,
        media_rules={
            "image": MediaRule(**SIDES),
            "video": MediaRule(**SIDES, **LENGTHS, min_fps=23.976, max_fps=60),
            "audio": MediaRule(**LENGTHS),
        },
    )


def _image(width: int, height: int) -> Reference:
    return make_reference(ReferenceRole.IMAGE, width=width, height=height)


def _video(duration_s: float, num_frames: int) -> Reference:
    return make_reference(ReferenceRole.VIDEO, width=1280, height=720, duration_s=duration_s, num_frames=num_frames)


def _sound(duration_s: float) -> Reference:
    return make_reference(ReferenceRole.AUDIO, duration_s=duration_s)


@pytest.mark.parametrize(
    "references",
    [
        pytest.param([_image(256, 640), _image(5760, 2304)], id="images-at-the-bounds"),
        pytest.param([_video(2, 48), _video(13, 13 * 60)], id="videos-at-the-bounds"),
        pytest.param([_video(5.005, 120)], id="ntsc"),
        pytest.param([_sound(15)], id="sound"),
        pytest.param([make_reference(ReferenceRole.IMAGE)], id="nobody-measured"),
    ],
)
def test_media_within_the_rules_is_taken(admit_body: Admit, references: list[Reference]) -> None:
    """The bounds themselves are inside."""
    assert tuple(references) == admit_body(_entry(), references).request.references


@pytest.mark.parametrize(
    ("references", "param", "words"),
    [
        pytest.param(
            [_image(255, 300)], "image_reference", "a side of 255 px; the model takes from 256 to 5760", id="small"
        ),
        pytest.param([_image(300, 5761)], "image_reference", "a side of 5761 px", id="large"),
        pytest.param([_image(256, 641)], "image_reference", "a ratio of 0.399", id="tall"),
        pytest.param([_image(2600, 1000)], "image_reference", "a ratio of 2.600", id="wide"),
        pytest.param(
            [_video(1.9, 57)], "video_reference", "a length of 1.900 s; the model takes from 2 to 15", id="short"
        ),
        pytest.param([_video(15.1, 453)], "video_reference", "a length of 15.100 s", id="long"),
        pytest.param([_video(2, 24)], "video_reference", "12.000 frames a second", id="slow"),
        pytest.param([_video(2, 240)], "video_reference", "120.000 frames a second", id="fast"),
        pytest.param(
            [_video(8, 192)] * 2, "video_reference", "All video references last 16.000 s; at most 15", id="in-all"
        ),
        pytest.param([_sound(1)], "audio_reference", "a length of 1.000 s", id="short-sound"),
        pytest.param([_image(300, 300), _sound(10), _sound(6)], "audio_reference", "last 16.000 s", id="sound-in-all"),
    ],
)
def test_media_outside_is_refused(admit_body: Admit, references: list[Reference], param: str, words: str) -> None:
    """With what it has and what the model takes."""
    with pytest.raises(VitascopeError) as caught:
        admit_body(_entry(), references)
    assert (FailureCode.INVALID_REQUEST, param) == (caught.value.code, caught.value.param)
    assert words in str(caught.value)
