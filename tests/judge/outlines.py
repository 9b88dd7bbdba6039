"""Which shape a mask shows: the best overlap with rendered templates over all rotations."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt

from judge.geometry import FOLD, compute_signed_distance
from judge.vocabulary import SHAPES

Mask = npt.NDArray[np.bool_]

GRID: Final = np.linspace(-2, 2, 49)  # template axis, in radii of the disc of equal area
AREA_GRID: Final = np.linspace(-2, 2, 400)  # finer, to measure the area of a shape of radius 1
TURN_STEP_DEGREES: Final = 5.0


@dataclass(frozen=True)
class Fit:
    """How well the best-turned template of one shape covers a mask: its IoU (0..1) and that turn in degrees."""

    iou: float
    angle_degrees: float


def fit_shapes(mask: Mask) -> Mapping[str, Fit]:
    """Compare a mask (height, width), not empty, with every shape of the same area at the same centroid."""
    sample = _sample_around_centroid(mask)
    return {shape: _fit(shape, sample) for shape in SHAPES}


def _fit(shape: str, sample: Mask) -> Fit:
    """The best of all turns; on a tie the smallest."""
    templates = _draw_templates(shape)
    both = templates @ sample.ravel().astype(np.float32)
    either = templates.sum(1) + sample.sum() - both
    iou = both / np.maximum(either, 1)
    best = int(iou.argmax())
    return Fit(float(iou[best]), best * TURN_STEP_DEGREES)


def _sample_around_centroid(mask: Mask) -> Mask:
    """The mask on the template grid, scaled so that every mask has the area of the unit disc."""
    ys, xs = np.nonzero(mask)
    assert len(ys), "an empty mask has no shape"
    radius_px = np.sqrt(len(ys) / np.pi)
    grid_x, grid_y = np.meshgrid(GRID, GRID)
    columns = np.round(grid_x * radius_px + xs.mean()).astype(int)
    rows = np.round(grid_y * radius_px + ys.mean()).astype(int)
    inside = (columns >= 0) & (rows >= 0) & (columns < mask.shape[1]) & (rows < mask.shape[0])
    sample = np.zeros(inside.shape, np.bool_)
    sample[inside] = mask[rows[inside], columns[inside]]
    return sample


@cache
def _draw_templates(shape: str) -> npt.NDArray[np.float32]:
    """A row (of 0 and 1) per turn, TURN_STEP_DEGREES apart, up to where the shape looks the same again."""
    fine_x, fine_y = np.meshgrid(AREA_GRID, AREA_GRID)
    side = AREA_GRID[-1] - AREA_GRID[0]
    area = (compute_signed_distance(shape, fine_x, fine_y, radius=1.0, angle_rad=0.0) < 0).mean() * side**2
    grid_x, grid_y = np.meshgrid(GRID, GRID)
    radius = float(np.sqrt(np.pi / area))
    angles = np.radians(np.arange(0, 360 / FOLD[shape], TURN_STEP_DEGREES)) if FOLD[shape] else np.zeros(1)
    rows = [
        compute_signed_distance(shape, grid_x, grid_y, radius=radius, angle_rad=float(angle)).ravel() < 0
        for angle in angles
    ]
    return np.array(rows, np.float32)


def compute_turn_degrees(angles: npt.NDArray[np.float64], shape: str) -> float:
    """Total turn, without sign, of a shape whose fitted angles are given frame by frame."""
    if not FOLD[shape]:
        return 0.0
    period = 360 / FOLD[shape]
    turns = (np.diff(angles) + period / 2) % period - period / 2
    return float(abs(turns.sum()))
