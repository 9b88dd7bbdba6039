"""Whether one more job fits into a tenant's quotas, and if not, when it will. Pure."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from vitascope.contracts.tenants import Quotas
from vitascope.runtime.usage import DAY, Usage

JOB_RETRY_S = 30
"""About as long as a place takes to become free; nobody knows when a job of theirs will end."""


@dataclass(frozen=True)
class Excess:
    """Which quota would be exceeded, in words, and after how many seconds it may be worth another try."""

    reason: str
    retry_after_s: int


def find_excess(
    quotas: Quotas,
    usage: Usage,
    gpu_s: float,
    ended: Iterable[tuple[datetime, float]],
    *,
    now: datetime,
    is_queued: bool = True,
) -> Excess | None:
    """What keeps one more job from being taken; None if it fits.

    Args:
        quotas: what the tenant may use.
        usage: what it uses, jobs that are being accepted at this moment included.
        gpu_s: what the new job is estimated at, in GPU-seconds.
        ended: when the jobs of the last 24 hours ended and what each used, the earliest first; read at need.
        now: the time of day.
        is_queued: whether the new job waits for a group; one that begins at decode does not.
    """
    if quotas.queued_jobs is not None and is_queued and usage.queued >= quotas.queued_jobs:
        return Excess(f"{usage.queued} of {quotas.queued_jobs} jobs wait already.", JOB_RETRY_S)
    if quotas.live_jobs is not None and usage.live >= quotas.live_jobs:
        return Excess(f"{usage.live} of {quotas.live_jobs} jobs are under way already.", JOB_RETRY_S)
    if quotas.gpu_s_per_day is None:
        return None
    over_s = usage.spent_gpu_s + usage.live_gpu_s + gpu_s - quotas.gpu_s_per_day
    if over_s <= 0:
        return None
    reason = (
        f"Of {quotas.gpu_s_per_day:g} GPU-seconds in 24 hours {usage.spent_gpu_s:.3g} are used and "
        f"{usage.live_gpu_s:.3g} promised to jobs under way; this one needs {gpu_s:.3g}."
    )
    return Excess(reason, _compute_wait_s(over_s, ended, now))


def _compute_wait_s(over_s: float, ended: Iterable[tuple[datetime, float]], now: datetime) -> int:
    """Seconds until enough of what was used is more than a day ago; a day if that alone will not do."""
    for at, gpu_s in ended:
        over_s -= gpu_s
        if over_s <= 0:
            return max(1, math.ceil((at + DAY - now).total_seconds()))
    return int(DAY.total_seconds())
