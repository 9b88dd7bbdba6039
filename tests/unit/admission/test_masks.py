"""The masks of a latent-mask edit: grids, shapes, resizing, folding, quantising, rows."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from numpy.typing import NDArray

from vitascope.admission.masks import (
    Grid,
    count_audio_latents,
    force_audio_tail,
    make_audio_mask,
    make_grid,
    make_video_mask,
    read_audio_cells,
    read_video_cells,
)
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.models import LatentEdit
from vitascope.contracts.shapes import Bucket

EDIT = LatentEdit()
GRID = make_grid(EDIT, width=96, height=64, num_frames=22)


def _cells(mask: object, grid: Grid = GRID) -> NDArray[np.float64]:
    return read_video_cells("video_noise_mask", np.asarray(mask, dtype=np.float64), grid)


@pytest.mark.parametrize(
    ("num_frames", "latents"),
    [
        pytest.param(5, 2, id="end-alone"),
        pytest.param(22, 7, id="one-cycle"),
        pytest.param(107, 32, id="four-seconds"),
        pytest.param(209, 62, id="default"),
        pytest.param(362, 107, id="fifteen-seconds"),
    ],
)
def test_frames_fold_into_latents(num_frames: int, latents: int) -> None:
    """2 + 5 (F - 5) / 17 of them, which fold every frame once."""
    grid = make_grid(EDIT, width=1344, height=768, num_frames=num_frames)
    assert (latents, 48, 84) == grid.cells
    assert (latents, 24, 42) == grid.tokens
    assert latents * 24 * 42 == grid.rows
    assert num_frames == sum(grid.folds)


@pytest.mark.parametrize(
    ("shape", "fits"),
    [
        pytest.param((96, 64, 22), True, id="fits"),
        pytest.param((96, 64, 5), True, id="shortest"),
        pytest.param((96, 64, 21), False, id="frames"),
        pytest.param((96, 64, 4), False, id="too-few"),
        pytest.param((96, 64, 1), False, id="still"),
        pytest.param((80, 64, 22), False, id="half-a-token-wide"),
        pytest.param((96, 48, 22), False, id="half-a-token-high"),
    ],
)
def test_shapes_that_fit(shape: tuple[int, int, int], fits: bool) -> None:  # noqa: FBT001 (expected value)
    """Whole tokens, whole cycles."""
    width, height, num_frames = shape
    assert fits == EDIT.fits(Bucket(name="a", width=width, height=height, num_frames=num_frames))


def test_equal_masks_in_every_shape_are_equal() -> None:
    """A number, flat tokens, the token grid, the full grid and pixels say the same thing in five ways."""
    tokens = np.arange(GRID.rows).reshape(GRID.tokens) / GRID.rows
    full = tokens.repeat(2, axis=1).repeat(2, axis=2)
    expected = _cells(full)
    assert full.tolist() == expected.tolist()
    assert expected.tolist() == _cells(tokens).tolist()
    assert expected.tolist() == _cells(tokens.reshape(-1)).tolist()
    assert np.full(GRID.cells, 0.25).tolist() == _cells(0.25).tolist()
    assert np.full(GRID.cells, 0.25).tolist() == _cells(np.full((64, 96), 0.25)).tolist()


def test_axes_of_one_in_front_are_dropped() -> None:
    """However many."""
    tokens = np.arange(GRID.rows).reshape(GRID.tokens) / GRID.rows
    assert _cells(tokens).tolist() == _cells(tokens[np.newaxis, np.newaxis]).tolist()
    assert _cells(0.5).tolist() == _cells([[[0.5]]]).tolist()


@pytest.mark.parametrize(
    "shape",
    [
        pytest.param((41,), id="flat-of-another-length"),
        pytest.param((2, 7, 4, 6), id="four-axes"),
        pytest.param((7 * 4 * 6,), id="flat-cells"),
        pytest.param((2, 16385), id="wider-than-any-shape"),
    ],
)
def test_other_shapes_are_refused_with_those_that_fit(shape: tuple[int, ...]) -> None:
    """All of them are listed."""
    with pytest.raises(VitascopeError) as caught:
        _cells(np.zeros(shape))
    assert (FailureCode.INVALID_REQUEST, "video_noise_mask") == (caught.value.code, caught.value.param)
    assert "one number, [42], [7, 2, 3], [7, 4, 6], [height, width] or [frames, height, width]" in str(caught.value)


def test_pixels_are_averaged_over_the_area_of_a_cell() -> None:
    """Also where the edges of cells cut pixels: 3 columns over 2 cells give the middle one half to each."""
    grid = make_grid(LatentEdit(spatial_px=16, patch=2), width=32, height=32, num_frames=5)
    made = _cells([[0.9, 0.3, 0.0], [0.9, 0.3, 0.0]], grid)
    assert [[pytest.approx(0.7), pytest.approx(0.1)]] * 2 == made[0].tolist()
    assert made[0].tolist() == made[1].tolist()


def test_a_latent_takes_the_largest_of_its_frames() -> None:
    """1, 4, 4, 4, 4 frames, then 1, 4: frame 17 begins the end."""
    for frame, latent in ((0, 0), (1, 1), (4, 1), (5, 2), (13, 4), (16, 4), (17, 5), (18, 6), (21, 6)):
        mask = np.zeros((22, 64, 96))
        mask[frame] = 0.75
        assert [latent] == np.flatnonzero(_cells(mask).max(axis=(1, 2))).tolist(), frame


def test_the_largest_is_taken_after_resizing() -> None:
    """Two frames that are half on in turns are half on, not on."""
    mask = np.zeros((22, 64, 96))
    mask[1, :, 0::2], mask[2, :, 1::2] = 1.0, 1.0
    assert 0.5 == _cells(mask)[1].max()


def test_a_short_mask_repeats_its_last_slice() -> None:
    """And of a long one the rest is cut."""
    mask = np.zeros((22, 8, 8))
    mask[3:] = 1.0
    assert _cells(mask).tolist() == _cells(mask[:4]).tolist()
    assert _cells(mask).tolist() == _cells(np.concatenate([mask, np.zeros((9, 8, 8))])).tolist()


def test_a_shape_of_the_grid_always_means_the_grid() -> None:
    """Seven slices of 2 x 3 are tokens here, not seven frames of 2 x 3 pixels."""
    mask = np.zeros(GRID.tokens)
    mask[6] = 1.0
    assert [6] == np.flatnonzero(_cells(mask).max(axis=(1, 2))).tolist()


@given(
    arrays(
        np.float64, array_shapes(min_dims=2, max_dims=3, min_side=1, max_side=30), elements=st.sampled_from([0.0, 1.0])
    )
)
def test_any_picture_is_a_mask(mask: NDArray[np.float64]) -> None:
    """Within 0 and 1; all ones stay one exactly, all noughts nought."""
    if np.squeeze(mask).ndim < 2 or mask.shape[0] == 1:
        return
    made = _cells(mask)
    assert GRID.cells == made.shape
    assert 0.0 <= made.min() <= made.max() <= 1.0
    if mask.min() == mask.max():
        assert mask.max() == made.min() == made.max()


def test_the_model_mask_is_the_largest_cell_rounded_up() -> None:
    """To 1/256: what is to be made anew never counts as kept."""
    cells = np.zeros(GRID.cells)
    cells[0, 1, 0] = 0.001
    cells[0, 0, 2] = 0.5
    cells[6, 3, 5] = 0.501
    model = make_video_mask(cells, EDIT).model
    assert np.float32 == model.dtype
    assert (GRID.rows,) == model.shape
    assert {0: 1 / 256, 1: 0.5, 41: 129 / 256} == {int(at): float(model[at]) for at in np.flatnonzero(model)}


def test_0_001_and_1_256_differ_in_the_restore_mask_only() -> None:
    """The model is told the same."""
    small, level = (make_video_mask(_cells(value), EDIT) for value in (0.001, 1 / 256))
    assert small.model.tolist() == level.model.tolist()
    assert {np.float32(0.001)} == set(small.restore.reshape(-1))
    assert {np.float32(1 / 256)} == set(level.restore.reshape(-1))


def test_the_restore_mask_stands_as_the_models_rows_do() -> None:
    """A row is a token: 24 channels, each with the 2 x 2 cells of the token, unrounded."""
    rng = np.random.default_rng(0)
    cells = rng.random(GRID.cells)
    restore = make_video_mask(cells, EDIT).restore
    assert (GRID.rows, 96) == restore.shape
    latents = np.broadcast_to(cells, (24, *GRID.cells)).astype(np.float32)
    _, lines, columns = GRID.tokens
    for frame, line, column in ((0, 0, 0), (3, 1, 2), (6, 0, 1)):
        row = restore[(frame * lines + line) * columns + column]
        token = latents[:, frame, 2 * line : 2 * line + 2, 2 * column : 2 * column + 2]
        assert token.reshape(-1).tolist() == row.tolist()


@pytest.mark.parametrize(
    ("num_frames", "latents"),
    [pytest.param(5, 8, id="5"), pytest.param(107, 178, id="107"), pytest.param(209, 348, id="209")],
)
def test_sound_has_forty_latents_a_second(num_frames: int, latents: int) -> None:
    """Of each channel, rounded."""
    assert latents == count_audio_latents(EDIT, num_frames, Fraction(24))


def test_equal_sound_masks_in_every_shape_are_equal() -> None:
    """A number, one channel, two channels, the same flat."""
    one = np.linspace(0, 1, 8)
    expected = np.stack([one, one]).tolist()
    for mask in (one, np.stack([one, one]), np.concatenate([one, one]), one[np.newaxis]):
        assert expected == read_audio_cells("audio_noise_mask", mask, 8).tolist()
    assert np.full((2, 8), 0.5).tolist() == read_audio_cells("audio_noise_mask", np.asarray(0.5), 8).tolist()
    with pytest.raises(VitascopeError, match=r"one number, \[8\], \[2, 8\] or \[16\]"):
        read_audio_cells("audio_noise_mask", np.zeros((8, 2)), 8)


def test_where_the_source_is_silent_all_is_made_anew() -> None:
    """The tail beyond its last whole latent; a longer source changes nothing."""
    cells = np.zeros((2, 8))
    assert [0, 0, 0, 0, 1, 1, 1, 1] == force_audio_tail(cells, EDIT, 0.1)[1].tolist()
    assert cells.tolist() == force_audio_tail(cells, EDIT, 0.2).tolist()
    assert cells.tolist() == force_audio_tail(cells, EDIT, 60.0).tolist()


def test_the_sounds_rows_are_channel_by_channel() -> None:
    """Each 32 wide."""
    cells = np.array([[0.0, 0.1], [0.5, 1.0]])
    mask = make_audio_mask(cells, EDIT)
    assert [0.0, 26 / 256, 0.5, 1.0] == mask.model.tolist()
    assert (4, 32) == mask.restore.shape
    assert [np.float32(0.1)] * 32 == mask.restore[1].tolist()
