"""Thumbnails: small, in shape and in the right colours."""

import io

import numpy as np
import pytest
from PIL import Image

from vitascope.encode.failures import ChunkRefused
from vitascope.encode.thumbnail import make_thumbnail


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        pytest.param((1280, 720), (320, 180), id="wide"),
        pytest.param((720, 1280), (180, 320), id="tall"),
        pytest.param((320, 320), (320, 320), id="as large as allowed"),
        pytest.param((54, 30), (54, 30), id="never enlarged"),
        pytest.param((832, 480), (320, 185), id="to the nearest pixel"),
        pytest.param((4096, 2), (320, 1), id="never without a row"),
    ],
)
def test_size_keeps_the_aspect(size: tuple[int, int], expected: tuple[int, int]) -> None:
    """The longer side is 320 at most."""
    jpeg = make_thumbnail(np.zeros((size[1], size[0], 3), np.uint8))
    assert ("JPEG", expected) == ((image := Image.open(io.BytesIO(jpeg))).format, image.size)


@pytest.mark.parametrize("colour", [(255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255), (0, 0, 0)], ids=str)
def test_colour_is_kept_for_any_reader(colour: tuple[int, int, int]) -> None:
    """An independent decoder sees the colour that went in."""
    frame = np.empty((90, 160, 3), np.uint8)
    frame[:] = colour
    seen = np.asarray(Image.open(io.BytesIO(make_thumbnail(frame))).convert("RGB"), np.int16)
    assert np.abs(seen - np.array(colour)).max() <= 4


def test_same_frame_gives_same_bytes() -> None:
    """A retried stage stores the same object."""
    frame = np.random.default_rng(0).integers(0, 256, (480, 832, 3), np.uint8)
    assert make_thumbnail(frame) == make_thumbnail(frame.copy())


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(np.zeros((4, 4, 4), np.uint8), id="four channels"),
        pytest.param(np.zeros((4, 4, 3), np.float32), id="floats"),
        pytest.param(np.zeros((0, 4, 3), np.uint8), id="empty"),
    ],
)
def test_frame_of_another_kind_is_refused(frame: np.ndarray) -> None:
    """The error is the chunk's."""
    with pytest.raises(ChunkRefused):
        make_thumbnail(frame)
