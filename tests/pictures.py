"""Pictures without people that the frames model is sure of: one it takes for what it looks for, and one it does not."""

import numpy as np
from numpy.typing import NDArray

SKIN = (224, 172, 140)


def draw_shapes(height: int = 256, width: int = 256) -> NDArray[np.uint8]:
    """Six shaded ellipses the colour of skin, uint8 (height, width, 3): the model gives them more than 0.95."""
    rng = np.random.default_rng(30)
    y, x = np.mgrid[0:256, 0:256]
    lit = np.zeros((256, 256))
    for _ in range(6):
        (cx, cy), (rx, ry) = rng.uniform(40, 216, 2), rng.uniform(25, 90, 2)
        lit = np.maximum(lit, np.clip(1 - ((x - cx) / rx) ** 2 - ((y - cy) / ry) ** 2, 0, 1) ** 0.5)
    shaded = np.clip(np.array(SKIN) * (0.45 + 0.55 * lit[..., None]), 0, 255).astype(np.uint8)
    rows, columns = np.arange(height) * 256 // height, np.arange(width) * 256 // width
    return np.ascontiguousarray(shaded[rows][:, columns])


def draw_paper(height: int = 256, width: int = 256) -> NDArray[np.uint8]:
    """White, uint8 (height, width, 3): less than 0.05."""
    return np.full((height, width, 3), 255, np.uint8)
