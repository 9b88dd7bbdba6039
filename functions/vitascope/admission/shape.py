"""Width, height and frame count: exactly one of the model's buckets, or a refusal that says what would do."""

import re
from collections.abc import Iterable
from fractions import Fraction
from itertools import groupby

from pydantic import JsonValue

from vitascope.admission.aspect import RATIO, check_proportions, read_size_by_ratio
from vitascope.admission.fields import Fields, echo, refuse
from vitascope.admission.seconds import FIELD as SECONDS
from vitascope.admission.seconds import count_frames, find_by_seconds, read_seconds
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.models import ModelEntry
from vitascope.contracts.shapes import Bucket, compute_duration_s

MAX_LISTED_SIZES = 12
"""Sizes that a refusal lists; the rest is counted."""

_SIZE = re.compile(r"([1-9][0-9]{0,4})x([1-9][0-9]{0,4})")


def read_bucket(fields: Fields, entry: ModelEntry, fps: Fraction) -> Bucket:
    """The bucket that the request names; what it leaves out is the model's default.

    A frame count beats `seconds`. Seconds alone mean the bucket that lasts so long at `fps`, to within a frame.

    Raises:
        VitascopeError: `shape_not_allowed`, with the nearest and the allowed; `invalid_request`.
    """
    size_name, width, height = _read_size(fields, entry)
    if width > 0 and height > 0:
        check_proportions(fields, width, height)
    frames_name, frames = fields.find("frames", "num_frames")
    seconds = read_seconds(fields)
    if frames is None and seconds is not None:
        sized = [bucket for bucket in entry.buckets if (bucket.width, bucket.height) == (width, height)]
        frames_name, num_frames = SECONDS, count_frames(seconds, fps)
        bucket = find_by_seconds(sized, seconds, fps)
    else:
        num_frames = entry.defaults.num_frames if frames is None else _check_int(frames_name, frames)
        bucket = entry.find_bucket(width, height, num_frames)
    if bucket is not None:
        return bucket
    has_size = any((b.width, b.height) == (width, height) for b in entry.buckets)
    raise VitascopeError(
        FailureCode.SHAPE_NOT_ALLOWED,
        f"{entry.name} does not make {echo(width)}x{echo(height)} with {echo(num_frames)} frames; the nearest is "
        f"{_describe(entry.nearest_bucket(width, height, num_frames), fps if frames_name == SECONDS else None)}. "
        f"It makes {format_buckets(entry.buckets)}.",
        param=frames_name if has_size else size_name,
    )


def _describe(bucket: Bucket, fps: Fraction | None) -> str:
    lasts = f" ({float(compute_duration_s(bucket.num_frames, fps)):.3f} s)" if fps is not None else ""
    return f"{bucket.size} with {bucket.num_frames} frames{lasts}"


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
    if size is None and not given and (chosen := read_size_by_ratio(fields, entry)) is not None:
        return RATIO, *chosen
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
