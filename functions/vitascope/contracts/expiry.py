"""When the files of an ended job expire, and when its record is forgotten. Pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from vitascope.contracts.flow import State
from vitascope.contracts.jobs import JobRecord

SCRATCH = timedelta(days=2)
"""How long a failed job's latents and checkpoint wait for somebody who tries it again."""
DELETED = timedelta(days=1)
"""How long the record of a deleted job stays: quotas of a day count what it cost."""


@dataclass(frozen=True)
class Retention:
    """How long things are kept.

    Attributes:
        files: from the end of a job until it is expired and its files go.
        record: from there until its record goes, too.
    """

    files: timedelta
    record: timedelta


def compute_expiry(record: JobRecord, retention: Retention) -> datetime | None:
    """The moment from which an ended job is to be expired, or that at which it was; None while it is alive.

    Counted from its end, but never from before its acceptance: the clock of the process that ended it may be wrong.
    """
    if record.state is State.EXPIRED:
        return record.times.expires
    if record.times.deleted is not None:
        return record.times.deleted
    if not record.is_terminal or record.times.finished is None:
        return None
    own = record.admission.kept_days
    files = retention.files if own is None else min(timedelta(days=own), retention.files)
    kept = min(SCRATCH, files) if record.state is State.FAILED else files
    return max(record.times.finished, record.times.created) + kept


def compute_forgetting(record: JobRecord, retention: Retention) -> datetime | None:
    """The moment from which the record of an expired job is to be forgotten; None for all others."""
    if record.state is not State.EXPIRED or record.times.expires is None:
        return None
    return record.times.expires + (retention.record if record.times.deleted is None else min(DELETED, retention.record))
