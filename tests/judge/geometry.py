"""Shapes as signed distances and backdrops as colour columns: shared by the renderer and the oracle."""

from typing import Final

import numpy as np
import numpy.typing as npt

from judge.vocabulary import BACKGROUNDS

Floats = npt.NDArray[np.float64]

# Rotating a shape by 360 / fold degrees changes nothing; 0: no rotation shows at all.
FOLD: Final = {"circle": 0, "square": 4, "triangle": 3, "star": 5, "cross": 4}


def compute_signed_distance(shape: str, x: Floats, y: Floats, *, radius: float, angle_rad: float) -> Floats:
    """Distance to the outline of a shape centred at the origin, negative inside; y points down.

    The nominal radii of the shapes give them similar areas. The result has the shape and the unit of x and y.
    """
    cos, sin = np.cos(angle_rad), np.sin(angle_rad)
    x, y = cos * x + sin * y, -sin * x + cos * y
    match shape:
        case "circle":
            distance = np.hypot(x, y) - radius
        case "square":
            distance = np.maximum(abs(x), abs(y)) - 0.88 * radius
        case "triangle":
            half_sqrt3 = 0.8660254
            distance = np.maximum(y, half_sqrt3 * abs(x) - 0.5 * y) - 0.64 * radius
        case "cross":
            long, short = 1.05 * radius, 0.36 * radius
            distance = np.minimum(
                np.maximum(abs(x) - long, abs(y) - short),
                np.maximum(abs(x) - short, abs(y) - long),
            )
        case "star":
            distance = _star_distance(x, y, outer=1.25 * radius, inner=0.55 * radius)
        case _:
            raise KeyError(shape)
    return np.asarray(distance, np.float64)


def _star_distance(x: Floats, y: Floats, *, outer: float, inner: float) -> Floats:
    """Five points, the first straight up; folded into half a point, where the outline is one straight edge."""
    half_point = np.pi / 5
    phi = np.abs((np.arctan2(x, -y) + half_point) % (2 * half_point) - half_point)
    length = np.hypot(x, y)
    edge_x, edge_y = inner * np.cos(half_point) - outer, inner * np.sin(half_point)
    distance = ((length * np.cos(phi) - outer) * edge_y - length * np.sin(phi) * edge_x) / np.hypot(edge_x, edge_y)
    return np.asarray(distance, np.float64)


def compute_backdrop(name: str, height_px: int) -> npt.NDArray[np.float32]:
    """The canonical backdrop as a column (height, 1, 3), float32 in 0..255."""
    top, bottom = (np.array(colour, np.float32) for colour in BACKGROUNDS[name])
    ramp = np.linspace(0, 1, height_px, dtype=np.float32)[:, None, None]
    return top + (bottom - top) * ramp
