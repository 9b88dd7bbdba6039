"""A shape by its proportions: which of the model's sizes an aspect ratio and a short edge mean."""

import math
import re
from collections.abc import Iterable

from pydantic import JsonValue

from vitascope.admission.fields import Fields, echo, refuse
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.models import ModelEntry

RATIO, EDGE = "aspect_ratio", "short_edge"
TOLERANCE = 0.05
"""How far a size's ratio may be from the one that is asked for: 832x480 is called 16:9, and is 2.5 % narrower."""
MAX_RATIO = 10.0
MAX_EDGE_PX = 16_384
MAX_LISTED_SIZES = 12

_PAIR = re.compile(r"([1-9][0-9]{0,3}):([1-9][0-9]{0,3})", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,4}(\.[0-9]{1,9})?", re.ASCII)


def read_size_by_ratio(fields: Fields, entry: ModelEntry) -> tuple[int, int] | None:
    """Width and height in pixels of the size that fits; None if the request asks for no proportions.

    Of several sizes the default one is taken, else the one whose area is nearest to it.

    Raises:
        VitascopeError: `invalid_request`; `shape_not_allowed`, no size fits.
    """
    ratio = _read_ratio(fields)
    edge = fields.read_int(EDGE, low=1, high=MAX_EDGE_PX)
    if ratio is None and edge is None:
        return None
    sizes = dict.fromkeys((bucket.width, bucket.height) for bucket in entry.buckets)
    fitting = [size for size in sizes if _fits(size, ratio, edge)]
    if not fitting:
        raise VitascopeError(
            FailureCode.SHAPE_NOT_ALLOWED,
            f"{entry.name} has no such size; it has {_list(sizes)}.",
            param=RATIO if edge is None or not any(_fits(size, ratio, None) for size in sizes) else EDGE,
        )
    area = entry.defaults.width * entry.defaults.height
    default = (entry.defaults.width, entry.defaults.height)
    return min(fitting, key=lambda size: (size != default, abs(math.log(size[0] * size[1] / area))))


def check_proportions(fields: Fields, width: int, height: int) -> None:
    """Refuse a size in pixels that the proportions beside it contradict.

    Raises:
        VitascopeError: `invalid_request`.
    """
    edge = fields.read_int(EDGE, low=1, high=MAX_EDGE_PX)
    ratio = _read_ratio(fields)
    for name, is_so in ((RATIO, _fits((width, height), ratio, None)), (EDGE, _fits((width, height), None, edge))):
        if not is_so:
            raise refuse(name, f"{name} says something else than the size.")


def _read_ratio(fields: Fields) -> float | None:
    """Width over height, from "16:9" or a number."""
    name, value = fields.find(RATIO)
    if value is None:
        return None
    ratio = _parse_ratio(value)
    if ratio is None or not 1 / MAX_RATIO <= ratio <= MAX_RATIO:
        raise refuse(name, f'{name} is two numbers such as "16:9", or their quotient, not {echo(value)}.')
    return ratio


def _parse_ratio(value: JsonValue) -> float | None:
    if isinstance(value, str):
        pair = _PAIR.fullmatch(value)
        if pair is not None:
            return int(pair[1]) / int(pair[2])
        return float(value) if _NUMBER.fullmatch(value) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if abs(value) <= MAX_RATIO else None


def _fits(size: tuple[int, int], ratio: float | None, edge: int | None) -> bool:
    width, height = size
    has_ratio = ratio is None or abs(width / height / ratio - 1) <= TOLERANCE
    return has_ratio and (edge is None or min(size) == edge)


def _list(sizes: Iterable[tuple[int, int]]) -> str:
    listed = [f"{width}x{height}" for width, height in sizes]
    more = f" and {len(listed) - MAX_LISTED_SIZES} more" if len(listed) > MAX_LISTED_SIZES else ""
    return ", ".join(listed[:MAX_LISTED_SIZES]) + more
