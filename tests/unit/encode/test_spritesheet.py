"""Spritesheets: which frames, in which order, and no more of them than fit."""

import io

import numpy as np
import pytest
from PIL import Image

from vitascope.encode.failures import ChunkRefused
from vitascope.encode.spritesheet import Spritesheet, pick_tiles


def make_film(num_frames: int, height: int = 36, width: int = 64) -> np.ndarray:
    """Frame N is of grey N."""
    greys = np.arange(num_frames, dtype=np.uint8)
    return np.broadcast_to(greys[:, None, None, None], (num_frames, height, width, 3)).copy()


@pytest.mark.parametrize(
    ("num_frames", "expected"),
    [
        pytest.param(1, (0,), id="one"),
        pytest.param(2, (0, 1), id="two"),
        pytest.param(17, tuple(range(17)), id="all of a short clip"),
        pytest.param(25, tuple(range(25)), id="just as many as fit"),
        pytest.param(49, tuple(range(0, 49, 2)), id="every second"),
    ],
)
def test_frames_are_spread_evenly(num_frames: int, expected: tuple[int, ...]) -> None:
    """The first and the last are among them."""
    assert expected == pick_tiles(num_frames)


@pytest.mark.parametrize("chunk", [1, 5, 16, 200], ids=lambda frames: f"chunks of {frames}")
def test_tiles_stand_in_the_order_of_the_clip(chunk: int) -> None:
    """Whatever the chunks; rows of five, the first at the top left."""
    film = make_film(81)
    sheet = Spritesheet(81)
    for first in range(0, 81, chunk):
        sheet.add(film[first : first + chunk], first)
    picture = Image.open(io.BytesIO(sheet.finish()))
    assert ("JPEG", (5 * 64, 5 * 36)) == (picture.format, picture.size)
    seen = np.asarray(picture.convert("RGB"), np.int16)
    for place, frame in enumerate(pick_tiles(81)):
        tile = seen[place // 5 * 36 :, place % 5 * 64 :][:36, :64]
        assert np.abs(tile - frame).max() <= 4


def test_cells_that_are_left_over_are_black() -> None:
    """Seventeen tiles take four rows of five."""
    sheet = Spritesheet(17)
    sheet.add(np.full((17, 36, 64, 3), 255, np.uint8), 0)
    seen = np.asarray(Image.open(io.BytesIO(sheet.finish())).convert("L"))
    assert (4 * 36, 5 * 64) == seen.shape
    assert seen[3 * 36 :, 2 * 64 + 8 :].max() <= 4
    assert seen[3 * 36 :, : 2 * 64 - 8].min() >= 251


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        pytest.param((1280, 720), (160, 90), id="wide"),
        pytest.param((720, 1280), (90, 160), id="tall"),
        pytest.param((64, 64), (64, 64), id="never enlarged"),
    ],
)
def test_tiles_are_small(size: tuple[int, int], expected: tuple[int, int]) -> None:
    """The longer side is 160 at most, the aspect stays."""
    sheet = Spritesheet(1)
    sheet.add(np.zeros((1, size[1], size[0], 3), np.uint8), 0)
    assert expected == Image.open(io.BytesIO(sheet.finish())).size


def test_a_chunk_of_another_kind_is_refused() -> None:
    """The error is the chunk's."""
    with pytest.raises(ChunkRefused):
        Spritesheet(1).add(np.zeros((1, 4, 4, 3), np.float32), 0)  # type: ignore[arg-type]
