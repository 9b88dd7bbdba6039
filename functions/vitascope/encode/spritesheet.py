"""Frames of the whole clip as one JPEG, for players that show where the mouse points.

The tiles stand in rows, the first at the top left; a row has the square root of their number, rounded up. Only the
tiles are kept while the clip passes, so memory does not grow with its length.
"""

import math

import numpy as np
from numpy.typing import NDArray

from vitascope.encode.thumbnail import encode_jpeg, scale_picture

MAX_TILES = 25
TILE_MAX_PX = 160
"""The longer side of a tile."""


class Spritesheet:
    """One sheet in the making. Used from one thread at a time."""

    def __init__(self, num_frames: int) -> None:
        """Takes the frames of the clip, at least one."""
        self._wanted = pick_tiles(num_frames)
        self._tiles: list[NDArray[np.uint8]] = []

    def add(self, pixels: NDArray[np.uint8], first_frame: int) -> None:
        """Take what is wanted of a chunk, uint8 RGB (T, H, W, 3), in the order of the clip.

        Raises:
            ChunkRefused: another shape or type.
            EncodeFailed: scaling failed.
        """
        for frame in self._wanted[len(self._tiles) :]:
            if not first_frame <= frame < first_frame + len(pixels):
                return
            self._tiles.append(scale_picture(pixels[frame - first_frame], TILE_MAX_PX))

    def finish(self) -> bytes:
        """The sheet as a JPEG; cells after the last tile are black.

        Raises:
            EncodeFailed: the codec says no.
        """
        assert len(self._tiles) == len(self._wanted), "a complete clip has all its tiles"
        height, width = self._tiles[0].shape[:2]
        columns = math.ceil(math.sqrt(len(self._tiles)))
        rows = math.ceil(len(self._tiles) / columns)
        sheet = np.zeros((rows * height, columns * width, 3), np.uint8)
        for place, tile in enumerate(self._tiles):
            top, left = place // columns * height, place % columns * width
            sheet[top : top + height, left : left + width] = tile
        return encode_jpeg(sheet)


def pick_tiles(num_frames: int) -> tuple[int, ...]:
    """The frames that are shown, counted from 0: at most `MAX_TILES`, spread evenly from the first to the last."""
    count = min(num_frames, MAX_TILES)
    return tuple(round(place * (num_frames - 1) / max(count - 1, 1)) for place in range(count))
