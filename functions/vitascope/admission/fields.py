"""Read a body's fields with exact types: what JSON calls a number is never made of a string, nor of a boolean."""

import json
from collections.abc import Mapping

from pydantic import JsonValue

from vitascope.contracts.failures import FailureCode, VitascopeError

ECHO_CHARS = 40
"""How much of a wrong value an error message repeats."""


def refuse(param: str, detail: str) -> VitascopeError:
    """The error for a field that is missing, of the wrong type or out of range."""
    return VitascopeError(FailureCode.INVALID_REQUEST, detail, param=param)


def echo(value: JsonValue) -> str:
    """A wrong value as a message may repeat it: short, one line, ASCII."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, str):
        return json.dumps(value[:ECHO_CHARS]) + ("…" if len(value) > ECHO_CHARS else "")
    written = json.dumps(value)
    return written if len(written) <= ECHO_CHARS else f"{written[:ECHO_CHARS]}…"


class Fields:
    """The fields of one body. `null` is the same as absent; two spellings of one field must agree."""

    def __init__(self, body: Mapping[str, JsonValue]) -> None:
        self._body = body

    def find(self, *names: str) -> tuple[str, JsonValue]:
        """The spelling that the client used, and the value; the first spelling and None if it used none."""
        given = [(name, self._body[name]) for name in names if self._body.get(name) is not None]
        for name, value in given[1:]:
            first_name, first = given[0]
            if (type(value), value) != (type(first), first):
                raise refuse(name, f"{first_name} and {name} mean the same and differ.")
        return given[0] if given else (names[0], None)

    def read_int(self, *names: str, low: int, high: int) -> int | None:
        """A whole number written as one: neither 7.0 nor "7" nor true."""
        name, value = self.find(*names)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise refuse(name, f"{name} must be a whole number from {low} to {high}, not {echo(value)}.")
        return value

    def read_number(self, *names: str, low: float, high: float) -> float | None:
        """A number, whole or not; infinite ones are outside every bound."""
        name, value = self.find(*names)
        if value is None:
            return None
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not low <= value <= high:
            raise refuse(name, f"{name} must be a number from {low:g} to {high:g}, not {echo(value)}.")
        return float(value)

    def read_bool(self, *names: str) -> bool | None:
        """True or false, and nothing that is taken for them."""
        name, value = self.find(*names)
        if value is not None and not isinstance(value, bool):
            raise refuse(name, f"{name} must be true or false, not {echo(value)}.")
        return value

    def read_str(self, *names: str) -> str | None:
        """A string, not yet looked into."""
        name, value = self.find(*names)
        if value is not None and not isinstance(value, str):
            raise refuse(name, f"{name} must be a string, not {echo(value)}.")
        return value

    def read_map(self, *names: str) -> dict[str, JsonValue]:
        """An object; empty if absent."""
        name, value = self.find(*names)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise refuse(name, f"{name} must be an object, not {echo(value)}.")
        return value
