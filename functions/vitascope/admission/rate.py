"""Frame rates as exact fractions, whatever way the client writes them."""

import re
from fractions import Fraction

from pydantic import JsonValue

from vitascope.admission.fields import Fields, echo, refuse
from vitascope.contracts.models import Limits

NTSC_TOLERANCE = 2e-4
"""How far a decimal may be from n * 1000/1001 to be taken for it: covers two decimals (29.97, 59.94, 119.88) and three
(23.976), and stays far below the distance to any other rate in use."""
MAX_DENOMINATOR = 1001
"""Of a decimal that is no NTSC rate: the nearest fraction with at most this denominator is taken."""
MAX_RATIO_DENOMINATOR = 100_000
"""Of a ratio, reduced: an MP4 track keeps the rate in two numbers of 32 bits."""

_RATIO = re.compile(r"([0-9]{1,9})/([0-9]{1,9})")


def read_fps(fields: Fields, limits: Limits, default: Fraction) -> Fraction:
    """Frames a second, exact.

    A whole number or a ratio in a string ("24000/1001") is taken as it is. A decimal is taken for the NTSC rate next
    to it (23.976 means 24000/1001, and 29.97 means 30000/1001), else for the nearest fraction with a denominator of
    at most `MAX_DENOMINATOR`; the answer to the request shows which.
    """
    name, value = fields.find("fps")
    if value is None:
        return default
    rate = _parse_rate(value)
    if rate is None:
        raise refuse(name, f'fps must be a number or a ratio such as "24000/1001", not {echo(value)}.')
    if not limits.min_fps <= rate <= limits.max_fps:
        raise refuse(name, f"fps must be from {limits.min_fps} to {limits.max_fps}, not {echo(value)}.")
    if rate.denominator > MAX_RATIO_DENOMINATOR:
        raise refuse(name, f"fps must have a denominator of at most {MAX_RATIO_DENOMINATOR}, not {rate.denominator}.")
    return rate


def format_fps(rate: Fraction) -> int | str:
    """The form that answers use and requests may send back: a whole number, or a ratio in a string."""
    return rate.numerator if rate.denominator == 1 else f"{rate.numerator}/{rate.denominator}"


def _parse_rate(value: JsonValue) -> Fraction | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return Fraction(value)
    if isinstance(value, float):
        return _round_rate(value)
    ratio = _RATIO.fullmatch(value) if isinstance(value, str) else None
    if ratio is None or int(ratio[2]) == 0:
        return None
    return Fraction(int(ratio[1]), int(ratio[2]))


def _round_rate(value: float) -> Fraction | None:
    try:
        exact = Fraction(value)
    except (ValueError, OverflowError):  # not a number, or infinite
        return None
    if exact.denominator == 1:
        return exact
    ntsc = Fraction(round(exact * 1001 / 1000) * 1000, 1001)
    return ntsc if abs(exact - ntsc) <= NTSC_TOLERANCE else exact.limit_denominator(MAX_DENOMINATOR)
