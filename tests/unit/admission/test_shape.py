"""Shapes: one of the model's buckets, or a refusal that names the nearest and the allowed (BR-03)."""

from collections.abc import Callable
from typing import Any

import pytest

from vitascope.admission import Admitted
from vitascope.admission.shape import format_buckets
from vitascope.catalog.demo import make_demo_entry
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.shapes import Bucket

Admit = Callable[..., Admitted]
SHAPE, INVALID = FailureCode.SHAPE_NOT_ALLOWED, FailureCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("body", "bucket"),
    [
        pytest.param({}, "64x64_17", id="default"),
        pytest.param({"size": "96x64"}, "96x64_17", id="size"),
        pytest.param({"width": 64, "height": 96, "frames": 33}, "64x96_33", id="sides"),
        pytest.param({"num_frames": 5}, "64x64_5", id="frames-alone"),
        pytest.param({"size": "128x80", "width": 128, "height": 80}, "128x80_17", id="both-agree"),
        pytest.param({"frames": 25, "num_frames": 25}, "64x64_25", id="two-spellings"),
    ],
)
def test_a_shape_on_offer_is_taken(admit_body: Admit, body: dict[str, Any], bucket: str) -> None:
    """Exactly that bucket, and the request says its size."""
    admitted = admit_body(**body)
    request = admitted.request
    assert bucket == admitted.admission.bucket
    assert bucket == f"{request.width}x{request.height}_{request.num_frames}"


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        pytest.param({"width": 54, "height": 30}, SHAPE, "width", id="even-but-not-offered"),
        pytest.param({"width": 33, "height": 64}, SHAPE, "width", id="odd"),
        pytest.param({"width": 64, "height": 33}, SHAPE, "height", id="odd-height"),
        pytest.param({"width": 33}, INVALID, "height", id="one-side"),
        pytest.param({"height": 64}, INVALID, "width", id="other-side"),
        pytest.param({"frames": 16}, SHAPE, "frames", id="16-frames"),
        pytest.param({"num_frames": 16}, SHAPE, "num_frames", id="16-frames-other-spelling"),
        pytest.param({"frames": 10**7}, SHAPE, "frames", id="ten-million-frames"),
        pytest.param({"frames": -1}, SHAPE, "frames", id="negative-frames"),
        pytest.param({"frames": 17.0}, INVALID, "frames", id="float-frames"),
        pytest.param({"frames": True}, INVALID, "frames", id="true-frames"),
        pytest.param({"frames": 17, "num_frames": 25}, INVALID, "num_frames", id="frames-differ"),
        pytest.param({"width": 2**31, "height": 64}, SHAPE, "width", id="two-to-the-31"),
        pytest.param({"width": 10**400, "height": 0}, SHAPE, "width", id="absurd"),
        pytest.param({"width": "64", "height": 64}, INVALID, "width", id="text-width"),
        pytest.param({"size": "0x0"}, INVALID, "size", id="0x0"),
        pytest.param({"size": "64X64"}, INVALID, "size", id="capital-x"),
        pytest.param({"size": "64x48x3"}, INVALID, "size", id="three"),
        pytest.param({"size": "64x48"}, SHAPE, "size", id="not-offered"),
        pytest.param({"size": "64x64\n"}, INVALID, "size", id="line-feed"),
        pytest.param({"size": "٦٤x٦٤"}, INVALID, "size", id="other-digits"),
        pytest.param({"size": 64}, INVALID, "size", id="number"),
        pytest.param({"size": "64x64", "width": 96, "height": 96}, INVALID, "size", id="size-differs"),
    ],
)
def test_any_other_shape_is_refused(admit_body: Admit, body: dict[str, Any], code: FailureCode, param: str) -> None:
    """The field at fault is named."""
    with pytest.raises(VitascopeError) as caught:
        admit_body(**body)
    assert (code, param) == (caught.value.code, caught.value.param)


def test_a_refusal_names_the_nearest_and_all_that_is_allowed(admit_body: Admit) -> None:
    """So that the next try is right."""
    with pytest.raises(VitascopeError) as caught:
        admit_body(width=90, height=60, frames=16)
    message = str(caught.value)
    assert "90x60 with 16 frames" in message
    assert "the nearest is 96x64 with 17 frames" in message
    offer = "64x64, 96x64, 64x96, 96x96, 128x80, 128x128 with 5, 9, 17, 25, 33 frames"
    assert offer in message
    assert offer == format_buckets(make_demo_entry().buckets)


def test_a_long_offer_is_cut() -> None:
    """A model with a thousand shapes does not make a message of a thousand shapes."""
    many = [Bucket(name=f"b{i}_{f}", width=2 * i, height=64, num_frames=f) for i in range(1, 51) for f in range(1, 101)]
    offer = format_buckets(many)
    assert "and 38 more sizes" in offer
    assert len(offer) < 400
