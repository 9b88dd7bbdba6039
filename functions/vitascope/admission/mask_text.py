"""The text of a mask: a JSON number, or lists of them, checked before anything is made of it."""

import json
import re

import numpy as np
from numpy.typing import NDArray

from vitascope.admission.fields import echo, refuse
from vitascope.contracts.failures import FailureCode, VitascopeError

MASK_MAX_BYTES = 8 * 1024 * 1024
MAX_DEPTH = 63
"""Lists inside each other."""
MAX_LISTS = 500_000
"""Of a mask of 700 frames with 700 lines each; bounds the memory that empty lists take."""

# What is no number, bracket, comma or blank: a mask holds no strings, objects, booleans, nor null.
_FOREIGN = re.compile(rb"[^\[\]0-9eE+\-.,\s]")


def check_mask_upload(field: str, content: bytes) -> None:
    """Refuse a file that cannot be a mask at all, without making anything of its numbers.

    Raises:
        VitascopeError: `media_too_large`; `invalid_request`: empty, not UTF-8, nested too deep, or holding anything but
            numbers and lists.
    """
    if len(content) > MASK_MAX_BYTES:
        detail = f"{field} has {len(content)} bytes; at most {MASK_MAX_BYTES} are taken."
        raise VitascopeError(FailureCode.MEDIA_TOO_LARGE, detail, param=field)
    if not content.strip():
        raise refuse(field, f"{field} is empty; it is a file of JSON: a number from 0 to 1, or lists of them.")
    foreign = _FOREIGN.search(content)
    if foreign is not None:
        raise refuse(field, f"{field} holds JSON numbers and lists only; byte {foreign.start()} is something else.")
    if content.count(b"[") > MAX_LISTS:
        raise refuse(field, f"{field} has more than {MAX_LISTS} lists.")
    if _measure_depth(content) > MAX_DEPTH:
        raise refuse(field, f"{field} is nested deeper than {MAX_DEPTH} levels.")


def _measure_depth(content: bytes) -> int:
    """The most lists that are open at a time: counted in arrays, since a loop over them would take seconds."""
    signs = np.frombuffer(content, dtype=np.uint8)
    brackets = signs[(signs == ord("[")) | (signs == ord("]"))]
    opened = np.cumsum(np.where(brackets == ord("["), 1, -1))
    return int(opened.max(initial=0))


def parse_mask(field: str, content: bytes) -> NDArray[np.float64]:
    """The numbers of a mask as they are nested: float64, no axis of length 0, all from 0 to 1.

    Takes up to 120 MB for a file of `MASK_MAX_BYTES`, and most of a second.

    Raises:
        VitascopeError: as `check_mask_upload`; `invalid_request`: not JSON, lists of unequal length, a number outside.
    """
    check_mask_upload(field, content)
    try:
        nested = json.loads(content)
    except json.JSONDecodeError as error:
        raise refuse(field, f"{field} is not JSON: {error.msg} at character {error.pos}.") from error
    except ValueError as error:  # the interpreter's own limit on the digits of a number
        raise refuse(field, f"{field} holds a number with too many digits.") from error
    try:
        mask = np.asarray(nested, dtype=np.float64)
    except OverflowError as error:
        raise refuse(field, f"{field} holds a number outside 0 to 1.") from error
    except ValueError as error:
        raise refuse(field, f"{field} must be regular: all lists of a level are equally long.") from error
    if mask.size == 0:
        raise refuse(field, f"{field} has no numbers.")
    outside = mask[~((mask >= 0) & (mask <= 1))]
    if outside.size:
        raise refuse(field, f"{field} holds {echo(float(outside[0]))}; numbers are from 0 to 1.")
    return mask
