"""A length in seconds: how many frames it asks for, and which of the model's shapes that is."""

import math
import re
from collections.abc import Iterable
from fractions import Fraction

from vitascope.admission.fields import Fields, echo, refuse
from vitascope.contracts.shapes import Bucket

FIELD = "seconds"
MAX_SECONDS = 999_999_999
"""Longer is a slip of the pen; what the model makes, the list of its shapes says."""

_DIGITS = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)


def read_seconds(fields: Fields) -> int | None:
    """Whole seconds, as a number or as the digits of one in a string; None if the request has none.

    Raises:
        VitascopeError: `invalid_request`.
    """
    name, value = fields.find(FIELD)
    if value is None:
        return None
    number = int(value) if isinstance(value, str) and _DIGITS.fullmatch(value) else value
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= MAX_SECONDS:
        raise refuse(name, f'{name} is a whole number from 1, as a number or in a string ("4"), not {echo(value)}.')
    return number


def count_frames(seconds: int, fps: Fraction) -> int:
    """Whole frames in that time."""
    return math.floor(seconds * fps)


def find_by_seconds(buckets: Iterable[Bucket], seconds: int, fps: Fraction) -> Bucket | None:
    """Of shapes of one size, the one that lasts so long to within a frame; None if none does.

    Models count frames as one more than a multiple (4 n + 1), users as a multiple: 5 seconds at 16 frames a second are
    80 frames, and 81 have 80 gaps. Of two that are equally near, the longer is taken.
    """
    exact = seconds * fps
    low, high = math.floor(exact) - 1, math.ceil(exact) + 1
    near = [bucket for bucket in buckets if low <= bucket.num_frames <= high]
    return min(near, key=lambda bucket: (abs(bucket.num_frames - exact), -bucket.num_frames), default=None)
