"""Which jobs a list shows: by tier, labels and time of creation. Pure."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime

from vitascope.contracts.ids import JOB_PREFIX, make_job_id
from vitascope.contracts.jobs import Tier

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIME_CHARS = len(JOB_PREFIX) + 10  # of an id: the prefix, and the milliseconds of a ULID


@dataclass(frozen=True)
class JobFilter:
    """What a listed job has to be; what is empty or None asks nothing.

    Attributes:
        tiers: one of these.
        labels: all of these, each `NAME=VALUE`, or `NAME` for any value.
        created_after: made later than this moment.
        created_before: made earlier than this moment.
    """

    tiers: Collection[Tier] = ()
    labels: tuple[str, ...] = ()
    created_after: datetime | None = None
    created_before: datetime | None = None

    def passes(self, tier: Tier, labels: Collection[str], created: datetime) -> bool:
        """Whether a job with these is shown; `labels` are `NAME=VALUE`."""
        return (
            (not self.tiers or tier in self.tiers)
            and (self.created_after is None or created > self.created_after)
            and (self.created_before is None or created < self.created_before)
            and all(_has(label, labels) for label in self.labels)
        )

    @property
    def first_id(self) -> str:
        """No job that passes has a smaller id, since ids begin with the millisecond of creation."""
        after = self.created_after
        return "" if after is None or after < _EPOCH else make_job_id(after)[:_TIME_CHARS]

    @property
    def end_id(self) -> str | None:
        """Every job that passes has a smaller id; None if there is no such bound."""
        before = self.created_before
        return None if before is None else make_job_id(max(before, _EPOCH))[:_TIME_CHARS] + "~"


def _has(label: str, labels: Collection[str]) -> bool:
    return label in labels if "=" in label else any(own.startswith(f"{label}=") for own in labels)
