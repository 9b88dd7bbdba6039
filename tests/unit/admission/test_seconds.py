"""Seconds: frames at the rate, a shape within a frame of it, or a refusal that names the nearest (BR-03 d, e)."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from vitascope.admission import Admitted
from vitascope.admission.seconds import count_frames, find_by_seconds
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.shapes import Bucket

Admit = Callable[..., Admitted]
NTSC = Fraction(24000, 1001)


@pytest.mark.parametrize(
    ("body", "num_frames"),
    [
        pytest.param({"seconds": 1, "fps": 17}, 17, id="exact"),
        pytest.param({"seconds": 1, "fps": 16}, 17, id="one-more"),
        pytest.param({"seconds": "1", "fps": 16}, 17, id="text"),
        pytest.param({"seconds": 2}, 17, id="default-rate"),
        pytest.param({"seconds": 4}, 33, id="four-seconds"),
        pytest.param({"seconds": 1, "fps": 34}, 33, id="one-less"),
        pytest.param({"seconds": "1", "fps": 23.976}, 25, id="ntsc"),
        pytest.param({"seconds": 1, "fps": 16, "num_frames": 33}, 33, id="frames-beat-seconds"),
        pytest.param({"seconds": 3600, "frames": 5}, 5, id="frames-beat-absurd-seconds"),
    ],
)
def test_a_length_is_a_shape_within_a_frame(admit_body: Admit, body: dict[str, Any], num_frames: int) -> None:
    """5, 9, 17, 25 and 33 frames are on offer."""
    assert num_frames == admit_body(**body).request.num_frames


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        pytest.param(
            {"seconds": 3600},
            FailureCode.SHAPE_NOT_ALLOWED,
            "28800 frames; the nearest is 64x64 with 33 frames (4.125 s)",
            id="an-hour",
        ),
        pytest.param(
            {"seconds": 10**8, "fps": 120}, FailureCode.SHAPE_NOT_ALLOWED, "with 33 frames (0.275 s)", id="years"
        ),
        pytest.param({"seconds": 1, "fps": 13}, FailureCode.SHAPE_NOT_ALLOWED, "It makes 64x64", id="between"),
        pytest.param({"seconds": 0}, FailureCode.INVALID_REQUEST, "", id="nought"),
        pytest.param({"seconds": -4}, FailureCode.INVALID_REQUEST, "", id="negative"),
        pytest.param({"seconds": 1.5}, FailureCode.INVALID_REQUEST, "", id="half"),
        pytest.param({"seconds": "1.5"}, FailureCode.INVALID_REQUEST, "", id="half-text"),
        pytest.param({"seconds": "04"}, FailureCode.INVALID_REQUEST, "", id="leading-nought"),
        pytest.param({"seconds": "4\n"}, FailureCode.INVALID_REQUEST, "", id="line-feed"),
        pytest.param({"seconds": "٤"}, FailureCode.INVALID_REQUEST, "", id="other-digits"),
        pytest.param({"seconds": ""}, FailureCode.INVALID_REQUEST, "", id="empty"),
        pytest.param({"seconds": True}, FailureCode.INVALID_REQUEST, "", id="true"),
        pytest.param({"seconds": 10**400}, FailureCode.INVALID_REQUEST, "", id="absurd"),
        pytest.param({"seconds": 1.5, "frames": 5}, FailureCode.INVALID_REQUEST, "", id="wrong-beside-frames"),
    ],
)
def test_another_length_is_refused(admit_body: Admit, body: dict[str, Any], code: FailureCode, words: str) -> None:
    """By `seconds`, with the nearest and how long it lasts."""
    with pytest.raises(VitascopeError) as caught:
        admit_body(**body)
    assert (code, "seconds") == (caught.value.code, caught.value.param)
    assert words in str(caught.value)


def test_frames_are_whole() -> None:
    """Rounded down."""
    assert 95 == count_frames(4, NTSC)
    assert 7 == count_frames(1, Fraction(15, 2))


def test_of_two_that_are_equally_near_the_longer() -> None:
    """One more than a multiple is what models make."""
    buckets = [Bucket(name=f"b{frames}", width=64, height=64, num_frames=frames) for frames in (15, 17)]
    found = find_by_seconds(buckets, 1, Fraction(16))
    assert found is not None
    assert 17 == found.num_frames
    assert find_by_seconds(buckets, 2, Fraction(16)) is None
