"""A read model of all jobs, fed by the ledger's changes: lists, counts and queue places without asking the ledger.

Each replica has its own; they agree within the time that a change takes to arrive. Whoever needs the truth about one
job asks the ledger. It holds no prompts and no results, so that a hundred thousand jobs fit into some tens of MB.
"""

import asyncio
from bisect import bisect_left, bisect_right, insort
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from heapq import merge
from itertools import islice

import structlog

from vitascope.contracts.failures import VitascopeError
from vitascope.contracts.flow import TERMINAL, State
from vitascope.contracts.jobs import JobRecord, Tier
from vitascope.runtime.change_log import Change, ChangeLog, make_change
from vitascope.runtime.job_filter import JobFilter
from vitascope.runtime.ports import Ledger, Stamped
from vitascope.runtime.usage import JobUsage, UsageIndex, compute_job_usage

MAX_JOBS = 100_000
"""Jobs in the index. Past it the oldest ended ones are forgotten; lists no longer show them, the ledger still does."""
MAX_SCANNED = 20_000
"""Jobs that are looked at for one page: some ten milliseconds."""
MAX_UNREAD = 64
"""Changes that a listener may leave unread; the oldest go first, since a newer record makes them history."""
RETRY_S = 1.0
"""Between two tries to follow a ledger that cannot be reached; ends with the process."""
REPLAY_EVERY_S = 3600.0
"""How long a forgotten job may still be listed; whoever asks for it is told at once that it is gone."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class JobSummary:
    """What the index knows of a job; `estimated_gpu_s` is in GPU-seconds, `done` the share of it that is behind.

    `labels` are `NAME=VALUE`, sorted.
    """

    id: str
    tenant: str
    state: State
    tier: Tier
    labels: tuple[str, ...]
    created: datetime
    pool: str
    estimated_gpu_s: float
    done: float
    retry_of: str | None
    is_deleted: bool
    used: JobUsage
    revision: int

    @property
    def shelf(self) -> "tuple[str, State | None]":
        """Under what it is listed; its owner no longer sees a deleted job, and no list of a state has it."""
        return self.tenant, None if self.is_deleted else self.state


@dataclass(frozen=True)
class QueuePlace:
    """Where a queued job stands: `position` 1 is next, `gpu_s_ahead` is the work of its pool before it."""

    position: int
    gpu_s_ahead: float


@dataclass(frozen=True)
class Page:
    """A part of a list: ids in its order, whether more may follow, and after which id to go on."""

    ids: tuple[str, ...]
    has_more: bool
    last_id: str | None = None


class JobIndex:
    """Jobs by tenant and state, queues by pool, and listeners of single jobs. For one event loop.

    Attributes:
        usage: what the tenants use, as far as the index remembers their jobs.
        changes: what happened to all jobs of late, in the order of revisions.
    """

    def __init__(self, max_jobs: int = MAX_JOBS) -> None:
        self._max_jobs = max_jobs
        self.usage = UsageIndex()
        self.changes = ChangeLog()
        self._jobs: dict[str, JobSummary] = {}
        self._ids: dict[tuple[str, State | None], list[str]] = defaultdict(list)
        self._queued: dict[str, list[str]] = defaultdict(list)
        self._running: dict[str, set[str]] = defaultdict(set)
        self._retries: dict[str, str] = {}
        self._listeners: dict[str, set[Listener]] = defaultdict(set)
        self._synced = asyncio.Event()

    async def run(self, ledger: Ledger) -> None:
        """Follow the ledger until cancelled; goes on by itself after an outage.

        The feed does not tell what the ledger forgets, so each replay drops the jobs that it no longer shows.
        """
        while True:
            try:
                async with asyncio.timeout(REPLAY_EVERY_S), ledger.watch() as changes:
                    await self._replay(changes)
                    async for stamped in changes:
                        if stamped is not None:
                            self.apply(stamped)
                            self.changes.add(stamped)
            except TimeoutError:
                continue  # a replay is due
            except VitascopeError as error:
                log.warning("ledger cannot be followed", error=str(error))
            await asyncio.sleep(RETRY_S)

    async def _replay(self, changes: AsyncIterator[Stamped | None]) -> None:
        unseen = set(self._jobs)
        newer: list[Change] = []
        async for stamped in changes:
            if stamped is None:
                break
            unseen.discard(stamped.record.id)
            self.apply(stamped)
            if stamped.revision > self.changes.newest:
                newer.append(make_change(stamped))
        else:
            return
        for job in unseen:
            self.forget(job)
        self.changes.begin(newer)
        self._synced.set()

    async def wait_synced(self, timeout_s: float) -> bool:
        """Whether every job of the ledger has been seen once; waits for that, but not for ever."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._synced.wait()
        except TimeoutError:
            return False
        return True

    def apply(self, stamped: Stamped) -> None:
        """Take a record in, unless as new a one of that job is known."""
        known = self._jobs.get(stamped.record.id)
        if known is not None and known.revision >= stamped.revision:
            return
        if known is not None:
            self._remove(known)
        self._add(_summarise(stamped))
        for listener in self._listeners.get(stamped.record.id, ()):
            listener.offer(stamped)
        if len(self._jobs) > self._max_jobs:
            self._forget_oldest()

    def forget(self, job: str) -> None:
        """Take out a job that the ledger no longer has."""
        known = self._jobs.get(job)
        if known is not None:
            self._remove(known)

    def count(self, state: State, tenant: str | None = None) -> int:
        """Jobs in a state, of one tenant or of all."""
        if tenant is not None:
            return len(self._ids.get((tenant, state), ()))
        return sum(len(ids) for (_, s), ids in self._ids.items() if s is state)

    def count_running(self, pool: str) -> int:
        """Jobs that the groups of a pool denoise at the moment."""
        return len(self._running.get(pool, ()))

    def find_page(
        self,
        tenant: str,
        states: Sequence[State],
        *,
        limit: int,
        after: str | None = None,
        is_descending: bool = True,
        wanted: JobFilter | None = None,
    ) -> Page:
        """The next jobs of a list in the order of their ids, which is that of their creation.

        `after` is the id at which the last page ended, whether or not that job is still listed: jobs that come or
        go meanwhile move nobody to another place, so no job is shown twice and none that stays is left out. A page
        ends after `MAX_SCANNED` jobs that were looked at, so it may be short, or empty, while more follow.
        """
        wanted = wanted or JobFilter()
        found: list[str] = []
        last = after
        shelves = [self._walk((tenant, state), wanted, after, is_descending=is_descending) for state in states]
        for count, job in enumerate(merge(*shelves, reverse=is_descending)):
            summary = self._jobs[job]
            is_shown = wanted.passes(summary.tier, summary.labels, summary.created)
            if count >= MAX_SCANNED or (is_shown and len(found) == limit):
                return Page(tuple(found), has_more=True, last_id=last)
            if is_shown:
                found.append(job)
            last = job
        return Page(tuple(found), has_more=False, last_id=last)

    def _walk(
        self, shelf: tuple[str, State | None], wanted: JobFilter, after: str | None, *, is_descending: bool
    ) -> Iterator[str]:
        """The ids of a shelf that may be wanted, in the order of the list."""
        ids = self._ids.get(shelf, [])
        first, end = bisect_left(ids, wanted.first_id), len(ids)
        if wanted.end_id is not None:
            end = bisect_left(ids, wanted.end_id)
        if after is not None and is_descending:
            end = min(end, bisect_left(ids, after))
        elif after is not None:
            first = max(first, bisect_right(ids, after))
        places = range(first, end)
        return (ids[place] for place in (reversed(places) if is_descending else places))

    def find_place(self, job: str) -> QueuePlace | None:
        """The place of a queued job in its pool, first come first served; None if it is not queued.

        What runs counts as ahead with the share that is not yet done.
        """
        summary = self._jobs.get(job)
        if summary is None or summary.state is not State.QUEUED:
            return None
        return self._measure_place(summary.pool, bisect_left(self._queued[summary.pool], job))

    def foresee_place(self, pool: str) -> QueuePlace:
        """The place of a job that would be queued in a pool now."""
        return self._measure_place(pool, len(self._queued.get(pool, ())))

    def find_retry(self, job: str) -> str | None:
        """The job that goes on where a failed one stopped; None if there is none."""
        return self._retries.get(job)

    @contextmanager
    def listen(self, job: str, news: asyncio.Event) -> Iterator["Listener"]:
        """What happens to one job from now on; `news` is set when something waits to be read."""
        listener = Listener(news)
        self._listeners[job].add(listener)
        try:
            yield listener
        finally:
            self._listeners[job].discard(listener)
            if not self._listeners[job]:
                del self._listeners[job]

    def _measure_place(self, pool: str, ahead: int) -> QueuePlace:
        gpu_s = sum(self._left_gpu_s(other) for other in islice(self._queued.get(pool, ()), ahead))
        gpu_s += sum(self._left_gpu_s(other) for other in self._running.get(pool, ()))
        return QueuePlace(ahead + 1, gpu_s)

    def _left_gpu_s(self, job: str) -> float:
        summary = self._jobs[job]
        return summary.estimated_gpu_s * (1.0 - summary.done)

    def _add(self, summary: JobSummary) -> None:
        self._jobs[summary.id] = summary
        self.usage.add(summary.used)
        insort(self._ids[summary.shelf], summary.id)
        if summary.state is State.QUEUED:
            insort(self._queued[summary.pool], summary.id)
        if summary.state is State.RUNNING:
            self._running[summary.pool].add(summary.id)
        if summary.retry_of is not None:
            self._retries[summary.retry_of] = summary.id

    def _remove(self, summary: JobSummary) -> None:
        del self._jobs[summary.id]
        self.usage.remove(summary.used)
        _drop(self._ids[summary.shelf], summary.id)
        if summary.state is State.QUEUED:
            _drop(self._queued[summary.pool], summary.id)
        self._running[summary.pool].discard(summary.id)
        if summary.retry_of is not None:
            self._retries.pop(summary.retry_of, None)

    def _forget_oldest(self) -> None:
        ended = [ids[0] for (_, state), ids in self._ids.items() if ids and (state is None or state in TERMINAL)]
        if ended:
            self._remove(self._jobs[min(ended)])


class Listener:
    """Changes of one job that its reader has not read yet."""

    def __init__(self, news: asyncio.Event) -> None:
        self._news = news
        self._unread: deque[Stamped] = deque(maxlen=MAX_UNREAD)

    def offer(self, stamped: Stamped) -> None:
        """Keep a change for the reader and wake it."""
        self._unread.append(stamped)
        self._news.set()

    def take(self) -> Iterator[Stamped]:
        """What waits, oldest first."""
        while self._unread:
            yield self._unread.popleft()


def _summarise(stamped: Stamped) -> JobSummary:
    record = stamped.record
    return JobSummary(
        id=record.id,
        tenant=record.request.tenant,
        state=record.state,
        tier=record.request.tier,
        labels=tuple(sorted(f"{name}={value}" for name, value in record.request.labels.items())),
        created=record.times.created,
        pool=record.admission.pool,
        estimated_gpu_s=record.admission.estimated_gpu_s,
        done=_compute_done(record),
        retry_of=record.retry_of,
        is_deleted=record.times.deleted is not None,
        used=compute_job_usage(record),
        revision=stamped.revision,
    )


def _compute_done(record: JobRecord) -> float:
    return min(record.run.step / record.run.steps, 1.0) if record.run.steps else 0.0


def _drop(ids: list[str], job: str) -> None:
    place = bisect_left(ids, job)
    assert ids[place] == job, "an indexed job stands in the list of its state"
    del ids[place]
