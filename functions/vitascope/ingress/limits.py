"""Limits: how often a key may ask, and how much its tenant may have made."""

import math
from collections import OrderedDict, defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime

from vitascope.admission.quota import find_excess
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.flow import State
from vitascope.contracts.jobs import Tier
from vitascope.contracts.tenants import Quotas, Rate
from vitascope.ingress.auth import Caller
from vitascope.ingress.errors import DoorError
from vitascope.runtime.job_index import JobIndex
from vitascope.runtime.ports import Clock
from vitascope.runtime.tenant_index import TenantIndex

MAX_BUCKETS = 10_000
"""Keys whose requests are counted. Past it the one that has rested longest is forgotten, and begins as if rested."""
SYNC_TIMEOUT_S = 5.0
"""A replica that has just started waits so long for its read model before it says that it cannot tell."""


@dataclass
class _Bucket:
    tokens: float
    at: datetime


@dataclass
class _Pending:
    jobs: int = 0
    queued: int = 0
    gpu_s: float = 0.0

    def count(self, sign: int, gpu_s: float, *, is_queued: bool) -> None:
        self.jobs += sign
        self.queued += sign * is_queued
        self.gpu_s += sign * gpu_s


class Limits:
    """The limits of all tenants at one replica.

    Each replica counts the requests that it gets itself, and what is used by its own read model. It does not see what
    others are accepting at the moment, which lasts as long as they read media: a tenant that asks several at once may
    get what a quota leaves over once at each of them.
    """

    def __init__(self, tenants: TenantIndex, jobs: JobIndex, clock: Clock, max_queued: int) -> None:
        self._tenants, self._jobs, self._clock, self._max_queued = tenants, jobs, clock, max_queued
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()
        self._pending: dict[str, _Pending] = defaultdict(_Pending)

    def check_rate(self, caller: Caller) -> None:
        """Count one request.

        Raises:
            DoorError: `rate_limited`, with the seconds after which the next one passes.
        """
        tenant = self._tenants.find(caller.tenant)
        if tenant is None or tenant.rate is None:
            return
        bucket, rate = self._fill(caller.key or f"tenant:{caller.tenant}", tenant.rate), tenant.rate
        if bucket.tokens < 1:
            wait_s = max(1, math.ceil((1 - bucket.tokens) / rate.per_s))
            detail = f"The limit is {rate.per_s:g} a second, and {rate.burst} at once."
            raise DoorError(FailureCode.RATE_LIMITED, detail, headers={"retry-after": str(wait_s)})
        bucket.tokens -= 1

    def _fill(self, key: str, rate: Rate) -> _Bucket:
        now = self._clock.now()
        bucket = self._buckets.setdefault(key, _Bucket(rate.burst, now))
        self._buckets.move_to_end(key)
        if len(self._buckets) > MAX_BUCKETS:
            self._buckets.popitem(last=False)
        rested_s = max(0.0, (now - bucket.at).total_seconds())  # a clock may be set back
        bucket.tokens, bucket.at = min(rate.burst, bucket.tokens + rested_s * rate.per_s), now
        return bucket

    @asynccontextmanager
    async def hold(self, tenant: str, tier: Tier, gpu_s: float, *, is_queued: bool = True) -> AsyncIterator[None]:
        """Room for one more job while it is being made; those who ask meanwhile find it taken.

        Args:
            tenant: who asks.
            tier: the job's.
            gpu_s: what it is estimated at, in GPU-seconds.
            is_queued: whether it waits for a group first.

        Raises:
            VitascopeError: `quota_exceeded`, with the reason and `Retry-After`; `queue_full`, too many jobs of all
                tenants wait; `forbidden`, the tier is not for this tenant; `service_unavailable`, what the tenant uses
                is not known yet.
        """
        known = self._tenants.find(tenant)
        if known is not None and tier not in known.tiers:
            allowed = ", ".join(sorted(known.tiers)) or "none"
            raise VitascopeError(FailureCode.FORBIDDEN, f"The tenant's tiers: {allowed}.", param="tier")
        if known is not None:
            await self._check_quotas(tenant, known.quotas, gpu_s, is_queued=is_queued)
        if is_queued and self._jobs.count(State.QUEUED) >= self._max_queued:
            raise VitascopeError(FailureCode.QUEUE_FULL, f"{self._max_queued} jobs wait.")
        pending = self._pending[tenant]
        pending.count(1, gpu_s, is_queued=is_queued)
        try:
            yield
        finally:
            pending.count(-1, gpu_s, is_queued=is_queued)
            if not pending.jobs:
                del self._pending[tenant]

    def find_kept_days(self, tenant: str) -> float | None:
        """How long a tenant wants the files of its jobs kept; None is as long as the service does."""
        known = self._tenants.find(tenant)
        return known.retention_days if known is not None else None

    async def _check_quotas(self, tenant: str, quotas: Quotas, gpu_s: float, *, is_queued: bool) -> None:
        if not any(limit is not None for limit in (quotas.gpu_s_per_day, quotas.live_jobs, quotas.queued_jobs)):
            return
        if not await self._jobs.wait_synced(SYNC_TIMEOUT_S):
            raise VitascopeError(FailureCode.SERVICE_UNAVAILABLE, "The jobs are still being read.")
        now, pending = self._clock.now(), self._pending.get(tenant, _Pending())
        usage = self._jobs.usage.measure(tenant, now)
        usage = replace(
            usage,
            live=usage.live + pending.jobs,
            queued=usage.queued + pending.queued,
            live_gpu_s=usage.live_gpu_s + pending.gpu_s,
        )
        ended = self._jobs.usage.walk_ended(tenant, now)
        excess = find_excess(quotas, usage, gpu_s, ended, now=now, is_queued=is_queued)
        if excess is not None:
            headers = {"retry-after": str(excess.retry_after_s)}
            raise DoorError(FailureCode.QUOTA_EXCEEDED, excess.reason, headers=headers)
