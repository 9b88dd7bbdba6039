"""Range and conditional requests (RFC 9110, sections 13 and 14): pure."""

import re
from dataclasses import dataclass
from datetime import datetime
from email.utils import format_datetime, parsedate_to_datetime

_SPAN = re.compile(r"bytes=[ \t]*([0-9]{0,19})-([0-9]{0,19})[ \t]*", re.ASCII | re.IGNORECASE)


class RangeUnsatisfiable(Exception):
    """The range is well written, but nothing of the file lies in it."""


@dataclass(frozen=True)
class Span:
    """`length` bytes from `start` on; at least one."""

    start: int
    length: int

    def format(self, size: int) -> str:
        """The value of `Content-Range`."""
        return f"bytes {self.start}-{self.start + self.length - 1}/{size}"


@dataclass(frozen=True)
class Validators:
    """What tells one content of an address from another. `modified` has whole seconds, as HTTP's dates do."""

    etag: str
    modified: datetime | None

    @property
    def modified_text(self) -> str | None:
        """The value of `Last-Modified`."""
        return format_datetime(self.modified, usegmt=True) if self.modified else None


def parse_range(header: str | None, size: int) -> Span | None:
    """The span that a `Range` header asks for; None means the whole file.

    A header that is not understood is ignored, as the RFC says: another unit, bad syntax, a last byte before the
    first. Several ranges are ignored too: no player needs them, and they are a known way to make a server work.

    Raises:
        RangeUnsatisfiable: as said.
    """
    match = _SPAN.fullmatch(header) if header else None
    if match is None or match[1] == match[2] == "":
        return None
    if match[1] == "":
        length = min(int(match[2]), size)
        if length == 0:
            raise RangeUnsatisfiable
        return Span(size - length, length)
    first = int(match[1])
    last = int(match[2]) if match[2] else size - 1
    if match[2] and last < first:
        return None
    if first >= size:
        raise RangeUnsatisfiable
    return Span(first, min(last, size - 1) - first + 1)


def is_unchanged(validators: Validators, if_none_match: str | None, if_modified_since: str | None) -> bool:
    """Whether the client has the content already; an entity tag outranks a date."""
    if if_none_match is not None:
        tags = (tag.strip().removeprefix("W/") for tag in if_none_match.split(","))
        return if_none_match.strip() == "*" or validators.etag in tags
    since = _parse_date(if_modified_since)
    return since is not None and validators.modified is not None and validators.modified <= since


def may_resume(validators: Validators, if_range: str | None) -> bool:
    """Whether a range may be sent: there is no `If-Range`, or it names the present content, strongly."""
    if if_range is None:
        return True
    if if_range.strip().startswith(('"', "W/")):
        return if_range.strip() == validators.etag
    date = _parse_date(if_range)
    return date is not None and date == validators.modified


def _parse_date(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return None
    return date if date.tzinfo is not None else None
