"""Width, height and frame count: exactly one of the model's buckets, or a refusal that says what would do."""

import re
from collections.abc import Iterable
from itertools import groupby

from pydantic import JsonValue

from vitascope.admission.fields import Fields, echo, refuse
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.models import ModelEntry
from vitascope.contracts.shapes import Bucket

MAX_LISTED_SIZES = 12
"""Sizes that a refusal lists; the rest is counted."""

_SIZE = re.compile(r"([1-9][0-9]{0,4})x([1-9][0-9]{0,4})")


def read_bucket(fields: Fields, entry: ModelEntry) -> Bucket:
    """The bucket that the request names; what it leaves out is the model's default."""
    size_name, width, height = _read_size(fields, entry)
    frames_name, frames = fields.find("frames", "num_frames")
    num_frames = entry.defaults.num_frames if frames is None else _check_int(frames_name, frames)
    bucket = entry.find_bucket(width, height, num_frames)
    if bucket is not None:
        return bucket
    nearest = entry.nearest_bucket(width, height, num_frames)
    has_size = any((b.width, b.height) == (width, height) for b in entry.buckets)
    raise VitascopeError(
        FailureCode.SHAPE_NOT_ALLOWED,
        f"{entry.name} does not make {echo(width)}x{echo(height)} with {echo(num_frames)} frames; the nearest is "
        f"{nearest.size} with {nearest.num_frames} frames. It makes {format_buckets(entry.buckets)}.",
        param=frames_name if has_size else size_name,
    )


def format_buckets(buckets: Iterable[Bucket]) -> str:
    """The shapes on offer in one line of bounded length: sizes that share their frame counts stand together."""
    frames_by_size: dict[str, list[int]] = {}
    for bucket in buckets:
        frames_by_size.setdefault(bucket.size, []).append(bucket.num_frames)
    listed = [(size, tuple(sorted(frames))) for size, frames in list(frames_by_size.items())[:MAX_LISTED_SIZES]]
    parts = [
        f"{', '.join(size for size, _ in sizes)} with {', '.join(map(str, frames[:MAX_LISTED_SIZES]))} frames"
        for frames, sizes in groupby(listed, key=lambda pair: pair[1])
    ]
    more = len(frames_by_size) - len(listed)
    return "; ".join(parts) + (f"; and {more} more sizes" if more else "")


def _read_size(fields: Fields, entry: ModelEntry) -> tuple[str, int, int]:
    """The field to blame, width and height in pixels."""
    size = fields.read_str("size")
    wished = {name: fields.find(name)[1] for name in ("width", "height")}
    given = {name: _check_int(name, value) for name, value in wished.items() if value is not None}
    if len(given) == 1:
        missing = "height" if "width" in given else "width"
        raise refuse(missing, "width and height are sent together, or neither.")
    if size is None:
        defaults = entry.defaults
        width, height = given.get("width", defaults.width), given.get("height", defaults.height)
        has_width = any(bucket.width == width for bucket in entry.buckets)
        return "height" if has_width else "width", width, height
    match = _SIZE.fullmatch(size)
    if match is None:
        offer = format_buckets(entry.buckets)
        raise refuse("size", f"size is WIDTHxHEIGHT in pixels, not {echo(size)}. {entry.name} makes {offer}.")
    width, height = int(match[1]), int(match[2])
    if given and (given["width"], given["height"]) != (width, height):
        raise refuse("size", f"size says {width}x{height}, width and height say something else.")
    return "size", width, height


def _check_int(name: str, value: JsonValue) -> int:
    """A whole number; whether it is a good one, the list of buckets says."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise refuse(name, f"{name} must be a whole number, not {echo(value)}.")
    return value
