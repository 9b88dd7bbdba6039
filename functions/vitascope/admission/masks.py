"""Latent-mask edits: from a client's mask to the two masks that a model takes.

0 keeps the source, 1 makes anew. The rules and figures are those of MiniMax H3, whose grids `LatentEdit` describes:

- frames: 17 n + 5 of them; each 17 fold into 5 latents of 1, 4, 4, 4 and 4 frames, the last 5 into 2 of 1 and 4;
- a latent has a cell for each `spatial_px` x `spatial_px` pixels, a token for each `patch` x `patch` cells;
- the **model mask** has one value a token, the largest of its cells, rounded up to 1/256: what the model is told;
- the **restore mask** has the cells themselves, repeated over the latent's channels: what is put back after each step.

Tokens stand in rows, frame by frame and line by line; within a row the channel counts slowest, then the line and the
column of the cell, which is the order in which the model's own rows of latents stand.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from vitascope.admission.fields import refuse
from vitascope.contracts.models import CYCLE, CYCLE_END, LatentEdit

Cells: TypeAlias = NDArray[np.float64]
Rows: TypeAlias = NDArray[np.float32]

LEVELS = 256
"""Steps of the model mask between 0 and 1."""
MAX_SIDE_PX = 16_384
"""Of a mask in pixels: what no shape goes beyond. Bounds the tables that resizing takes."""
STEREO = 2
"""Channels of the sound, each with latents of its own."""


@dataclass(frozen=True)
class Grid:
    """The latents of a clip.

    Attributes:
        num_frames: of the clip.
        folds: frames of each latent, in order.
        height: lines of cells.
        width: columns of cells.
        patch: cells of a token along each axis.
    """

    num_frames: int
    folds: tuple[int, ...]
    height: int
    width: int
    patch: int

    @property
    def cells(self) -> tuple[int, int, int]:
        """The full grid: latents, lines and columns of cells."""
        return len(self.folds), self.height, self.width

    @property
    def tokens(self) -> tuple[int, int, int]:
        """The token grid: latents, lines and columns of tokens."""
        return len(self.folds), self.height // self.patch, self.width // self.patch

    @property
    def rows(self) -> int:
        """Tokens of the clip."""
        frames, height, width = self.tokens
        return frames * height * width


@dataclass(frozen=True)
class EditMask:
    """The two masks of picture or sound.

    Attributes:
        model: float32 [rows], in steps of 1/256.
        restore: float32 [rows, width of a row].
    """

    model: Rows
    restore: Rows


def make_grid(edit: LatentEdit, *, width: int, height: int, num_frames: int) -> Grid:
    """The grid of a clip; width and height in pixels. The catalog lets no shape pass that does not fit."""
    cycles = (num_frames - sum(CYCLE_END)) // sum(CYCLE)
    folds = CYCLE * cycles + CYCLE_END
    assert sum(folds) == num_frames, "the catalog offers whole cycles"
    return Grid(num_frames, folds, height // edit.spatial_px, width // edit.spatial_px, edit.patch)


def read_video_cells(field: str, mask: Cells, grid: Grid) -> Cells:
    """A client's mask of the picture as a value for each cell.

    Args:
        field: what a refusal names.
        mask: as `parse_mask` gave it: one value for all; one a token, flat or as the token grid; the full grid; or in
            pixels of any size: `[h, w]` for all frames, `[T, h, w]` with a slice a frame. A clip that is longer than T
            repeats the last slice, a shorter one takes the first. A latent takes the largest of its frames.
        grid: of the clip.

    Returns:
        float64, shape `grid.cells`, 0 to 1.

    Raises:
        VitascopeError: `invalid_request`, naming the shapes.
    """
    values = _drop_leading(mask)
    if values.ndim == 0:
        return np.full(grid.cells, float(values))
    if values.shape == grid.cells:
        return values.astype(np.float64)
    if values.shape in {(grid.rows,), grid.tokens}:
        return _spread(values.reshape(grid.tokens), grid.patch)
    if values.ndim in {2, 3} and max(values.shape[-2:]) <= MAX_SIDE_PX:
        return _fold(values if values.ndim == 3 else values[np.newaxis], grid)  # noqa: PLR2004 (frames, lines, columns)
    shapes = f"one number, [{grid.rows}], {list(grid.tokens)}, {list(grid.cells)}, [height, width] or [frames, height, "
    raise refuse(field, f"{field} is of shape {list(mask.shape)[:8]}; this clip takes {shapes}width].")


def make_video_mask(cells: Cells, edit: LatentEdit) -> EditMask:
    """The masks of the picture from a value for each cell: rows are tokens, a row `channels * patch ** 2` wide."""
    frames, height, width = cells.shape
    patch = edit.patch
    blocks = cells.reshape(frames, height // patch, patch, width // patch, patch).transpose(0, 1, 3, 2, 4)
    by_token = blocks.reshape(-1, patch * patch)
    return EditMask(_quantise(by_token.max(axis=1)), np.tile(by_token, (1, edit.channels)).astype(np.float32))


def count_audio_latents(edit: LatentEdit, num_frames: int, fps: Fraction) -> int:
    """Latents of one channel of a clip's sound."""
    return round(Fraction(edit.audio_rate_hz) * num_frames / fps)


def read_audio_cells(field: str, mask: Cells, latents: int) -> Cells:
    """A client's mask of the sound as a value for each latent of both channels.

    Args:
        field: what a refusal names.
        mask: one value for all; `[latents]` for both channels; `[2, latents]`; or the same flat, channel by channel.
        latents: of one channel, see `count_audio_latents`.

    Returns:
        float64 `[2, latents]`, 0 to 1.

    Raises:
        VitascopeError: `invalid_request`, naming the shapes.
    """
    values = _drop_leading(mask)
    if values.ndim == 0:
        return np.full((STEREO, latents), float(values))
    if values.shape == (latents,):
        return np.tile(values.astype(np.float64), (STEREO, 1))
    if values.shape in {(STEREO, latents), (STEREO * latents,)}:
        return values.astype(np.float64).reshape(STEREO, latents)
    shapes = f"one number, [{latents}], [{STEREO}, {latents}] or [{STEREO * latents}]"
    raise refuse(field, f"{field} is of shape {list(mask.shape)[:8]}; this clip takes {shapes}.")


def force_audio_tail(cells: Cells, edit: LatentEdit, source_s: float) -> Cells:
    """The same, but 1 where the source has no sound any more: there is nothing to keep."""
    forced = cells.copy()
    forced[:, int(source_s * edit.audio_rate_hz) :] = 1.0
    return forced


def make_audio_mask(cells: Cells, edit: LatentEdit) -> EditMask:
    """The masks of the sound: rows are latents, channel by channel, a row `audio_channels` wide."""
    flat = cells.reshape(-1)
    return EditMask(_quantise(flat), np.tile(flat[:, np.newaxis], (1, edit.audio_channels)).astype(np.float32))


def _quantise(values: Cells) -> Rows:
    """Rounded up, so that nothing that is to be made anew counts as kept."""
    return np.clip(np.ceil(values * LEVELS) / LEVELS, 0.0, 1.0).astype(np.float32)


def _drop_leading(values: Cells) -> Cells:
    while values.ndim and values.shape[0] == 1:
        values = values[0]
    return values


def _spread(tokens: Cells, patch: int) -> Cells:
    """Each token's value for all of its cells."""
    return tokens.astype(np.float64).repeat(patch, axis=1).repeat(patch, axis=2)


def _fold(slices: Cells, grid: Grid) -> Cells:
    """From slices in pixels to cells: the area of each cell averaged, then the largest of the frames of a latent."""
    high, wide = _overlaps(slices.shape[1], grid.height), _overlaps(slices.shape[2], grid.width)
    area = slices.shape[1] * slices.shape[2]
    made, last = np.empty(grid.cells), np.zeros(grid.cells[1:])
    start = 0
    for index, frames in enumerate(grid.folds):
        if start < slices.shape[0]:
            smalls = _multiply(high, slices[start : start + frames], wide.T)
            made[index], last = smalls.max(axis=0) / area, smalls[-1] / area
        else:
            made[index] = last
        start += frames
    return np.clip(made, 0.0, 1.0)


def _multiply(high: Cells, slices: Cells, wide: Cells) -> Cells:
    """The product of the three, in the order that takes fewer steps."""
    (cells_high, pixels_high), (pixels_wide, cells_wide) = high.shape, wide.shape
    high_first = cells_high * pixels_wide * (pixels_high + cells_wide)
    wide_first = cells_wide * pixels_high * (pixels_wide + cells_high)
    made: Cells = (high @ slices) @ wide if high_first <= wide_first else high @ (slices @ wide)
    return made


def _overlaps(pixels: int, cells: int) -> Cells:
    """How much of each pixel lies in each cell, `[cells, pixels]`, in units that make every row add up to `pixels`.

    Whole numbers, so that a mask of ones stays one exactly.
    """
    edges = np.arange(cells + 1) * pixels
    marks = np.arange(pixels + 1) * cells
    overlap = np.minimum(edges[1:, None], marks[None, 1:]) - np.maximum(edges[:-1, None], marks[None, :-1])
    made: Cells = np.maximum(overlap, 0).astype(np.float64)
    return made
