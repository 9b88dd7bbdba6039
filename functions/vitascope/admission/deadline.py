"""The start deadline: a job that has not started by then never will."""

import re
from datetime import datetime, timedelta

from vitascope.admission.fields import Fields, echo, refuse

MAX_DEADLINE_S = 30 * 24 * 3600.0
"""Thirty days: nobody waits longer, and records do not live for ever."""

_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_EXAMPLE = "2026-01-31T12:00:00Z"


def read_start_deadline(fields: Fields, now: datetime) -> datetime | None:
    """The moment, from seconds after `now` or from a time of day with its zone (RFC 3339)."""
    name, value = fields.find("start_deadline")
    if value is None:
        return None
    if isinstance(value, str):
        deadline = _parse_time(name, value)
        if not now < deadline <= now + timedelta(seconds=MAX_DEADLINE_S):
            raise refuse(name, f"{name} must lie in the future, at most 30 days ahead, not {echo(value)}.")
        return deadline
    seconds = fields.read_number(name, low=0, high=MAX_DEADLINE_S)
    if not seconds:
        raise refuse(name, f"{name} must be above 0 seconds.")
    return now + timedelta(seconds=seconds)


def _parse_time(name: str, text: str) -> datetime:
    wrong = refuse(name, f"{name} is a number of seconds or a time such as {_EXAMPLE}, not {echo(text)}.")
    if _RFC3339.fullmatch(text) is None:
        raise wrong
    try:
        return datetime.fromisoformat(text.upper())
    except ValueError as error:  # the form is right, the day or the hour is not
        raise wrong from error
