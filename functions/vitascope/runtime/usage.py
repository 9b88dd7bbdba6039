"""What tenants use at the moment and have used within a day, kept up to date job by job."""

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from vitascope.contracts.flow import TERMINAL, State
from vitascope.contracts.jobs import JobRecord

DAY = timedelta(days=1)


@dataclass(frozen=True)
class JobUsage:
    """What one job takes up; `gpu_s` is what it has used, or, while it is alive, at least what it is estimated at."""

    job: str
    tenant: str
    is_queued: bool
    is_live: bool
    gpu_s: float
    ended: datetime | None


@dataclass(frozen=True)
class Usage:
    """What a tenant uses.

    Attributes:
        live: jobs that have not ended.
        queued: those of them that wait for a group.
        live_gpu_s: what the live ones are estimated at, or have used if that is more.
        spent_gpu_s: what those used that ended within the last 24 hours.
    """

    live: int = 0
    queued: int = 0
    live_gpu_s: float = 0.0
    spent_gpu_s: float = 0.0


@dataclass
class _Account:
    live: int = 0
    queued: int = 0
    live_gpu_s: float = 0.0
    spent_gpu_s: float = 0.0
    ended: list[tuple[datetime, str, float]] = field(default_factory=list)


class UsageIndex:
    """Usage by tenant. Each change costs no more than finding its place among the jobs of a day."""

    def __init__(self) -> None:
        self._accounts: dict[str, _Account] = defaultdict(_Account)

    def add(self, used: JobUsage) -> None:
        """Count a job in."""
        account = self._accounts[used.tenant]
        account.live += used.is_live
        account.queued += used.is_queued
        if used.is_live:
            account.live_gpu_s += used.gpu_s
        elif used.gpu_s > 0 and used.ended is not None:
            insort(account.ended, (used.ended, used.job, used.gpu_s))
            account.spent_gpu_s += used.gpu_s

    def remove(self, used: JobUsage) -> None:
        """Count out a job that was counted in."""
        account = self._accounts[used.tenant]
        account.live -= used.is_live
        account.queued -= used.is_queued
        if used.is_live:
            # A sum of fractions that come and go does not end at nothing by itself.
            account.live_gpu_s = account.live_gpu_s - used.gpu_s if account.live else 0.0
        elif used.gpu_s > 0 and used.ended is not None:
            row = (used.ended, used.job, used.gpu_s)
            place = bisect_left(account.ended, row)
            if place < len(account.ended) and account.ended[place] == row:  # else it was more than a day ago
                del account.ended[place]
                account.spent_gpu_s = account.spent_gpu_s - used.gpu_s if account.ended else 0.0

    def measure(self, tenant: str, now: datetime) -> Usage:
        """What a tenant uses now."""
        account = self._accounts.get(tenant)
        if account is None:
            return Usage()
        self._drop_old(account, now)
        return Usage(account.live, account.queued, account.live_gpu_s, account.spent_gpu_s)

    def walk_ended(self, tenant: str, now: datetime) -> Iterator[tuple[datetime, float]]:
        """When a tenant's jobs of the last 24 hours ended, and what each had used; the earliest first."""
        account = self._accounts.get(tenant)
        if account is not None:
            self._drop_old(account, now)
            yield from ((ended, gpu_s) for ended, _, gpu_s in account.ended)

    @staticmethod
    def _drop_old(account: _Account, now: datetime) -> None:
        end = bisect_left(account.ended, (now - DAY, "", 0.0))
        if end:
            account.spent_gpu_s -= sum(gpu_s for _, _, gpu_s in account.ended[:end])
            del account.ended[:end]
            account.spent_gpu_s = account.spent_gpu_s if account.ended else 0.0


def compute_job_usage(record: JobRecord) -> JobUsage:
    """What a record says of the use of its job. Pure."""
    spent, is_live = record.result.actual_gpu_s, record.state not in TERMINAL
    return JobUsage(
        job=record.id,
        tenant=record.request.tenant,
        is_queued=record.state is State.QUEUED,
        is_live=is_live,
        gpu_s=max(spent, record.admission.estimated_gpu_s) if is_live else spent,
        ended=record.times.finished,
    )
