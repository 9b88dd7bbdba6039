"""From bytes to a JSON object, stricter than the standard library: one meaning for each body, and no traps."""

import hashlib
import json
import re
from collections.abc import Iterable
from typing import NoReturn

from pydantic import JsonValue

from vitascope.contracts.failures import FailureCode, VitascopeError

MAX_DEPTH = 16
"""Objects and lists inside each other. No field of ours needs more than three."""
MAX_PARTS = 10_000
"""Strings, brackets and braces of a body: bounds the time that a hostile one takes to read."""

# A string that never ends matches to the end of the body, so that the scan is linear whatever comes.
_PART = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[{]|[\]}]', re.DOTALL)


def parse_body(content: bytes) -> dict[str, JsonValue]:
    """The JSON object in a request's body.

    Raises:
        VitascopeError: `invalid_json`: not UTF-8, not JSON, not an object, a name twice in one object, NaN or
            Infinity, a number of thousands of digits, or nested deeper than `MAX_DEPTH`.
    """
    _check_depth(content)
    try:
        body = json.loads(content.decode("utf-8"), object_pairs_hook=_make_object, parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise VitascopeError(FailureCode.INVALID_JSON, f"Byte {error.start} is not UTF-8.") from error
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise VitascopeError(FailureCode.INVALID_JSON, f"{error.msg} at {where}.") from error
    except ValueError as error:  # the interpreter's own limit on the digits of a number
        raise VitascopeError(FailureCode.INVALID_JSON, "It holds a number with too many digits.") from error
    if not isinstance(body, dict):
        raise VitascopeError(FailureCode.INVALID_JSON, 'Send an object such as {"prompt": "a red circle"}.')
    return body


def compute_body_digest(body: dict[str, JsonValue]) -> str:
    """SHA-256 of what a body says, whatever its spaces and the order of its fields; hexadecimal."""
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


def _check_depth(content: bytes) -> None:
    depth = 0
    for count, match in enumerate(_PART.finditer(content)):
        first = match.group()[:1]
        depth += {b"[": 1, b"{": 1, b"]": -1, b"}": -1}.get(first, 0)
        if depth > MAX_DEPTH:
            raise VitascopeError(FailureCode.INVALID_JSON, f"It is nested deeper than {MAX_DEPTH} levels.")
        if count >= MAX_PARTS:
            raise VitascopeError(FailureCode.INVALID_JSON, f"It has more than {MAX_PARTS} parts.")


def _make_object(pairs: Iterable[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    made: dict[str, JsonValue] = {}
    for name, value in pairs:
        if name in made:
            raise VitascopeError(FailureCode.INVALID_JSON, f"The name {json.dumps(name[:40])} stands there twice.")
        made[name] = value
    return made


def _refuse_constant(name: str) -> NoReturn:
    raise VitascopeError(FailureCode.INVALID_JSON, f"{name} is not a JSON number.")
