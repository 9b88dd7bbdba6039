"""How a video is held: the display matrix of its frames, as the filters that make it upright."""

import struct
from typing import Any

# a, b, c, d of the matrix: x' = a x + c y, y' = b x + d y, with y downwards; only their signs count.
_FILTERS: dict[tuple[int, int, int, int], tuple[tuple[str, str], ...]] = {
    (1, 0, 0, 1): (),
    (-1, 0, 0, -1): (("hflip", ""), ("vflip", "")),
    (0, 1, -1, 0): (("transpose", "clock"),),
    (0, -1, 1, 0): (("transpose", "cclock"),),
    (-1, 0, 0, 1): (("hflip", ""),),
    (1, 0, 0, -1): (("vflip", ""),),
    (0, 1, 1, 0): (("transpose", "cclock_flip"),),
    (0, -1, -1, 0): (("transpose", "clock_flip"),),
}


def find_filters(frame: Any) -> tuple[tuple[str, str], ...]:
    """FFmpeg filters (name, argument) that turn the frame upright; none for a matrix that is no quarter turn."""
    matrix = next((bytes(item) for item in frame.side_data if item.type.name == "DISPLAYMATRIX"), None)
    if matrix is None or len(matrix) != struct.calcsize("9i"):
        return ()
    values = struct.unpack("=9i", matrix)
    return _FILTERS.get((_sign(values[0]), _sign(values[1]), _sign(values[3]), _sign(values[4])), ())


def _sign(value: int) -> int:
    return (value > 0) - (value < 0)
