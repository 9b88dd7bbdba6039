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
from itertools import islice

import structlog

from vitascope.contracts.failures import VitascopeError
from vitascope.contracts.flow import TERMINAL, State
from vitascope.contracts.jobs import JobRecord
from vitascope.runtime.ports import Ledger, Stamped

MAX_JOBS = 100_000
"""Jobs in the index. Past it the oldest ended ones are forgotten; lists no longer show them, the ledger still does."""
MAX_UNREAD = 64
"""Changes that a listener may leave unread; the oldest go first, since a newer record makes them history."""
RETRY_S = 1.0
"""Between two tries to follow a ledger that cannot be reached; ends with the process."""
REPLAY_EVERY_S = 3600.0
"""How long a forgotten job may still be listed; whoever asks for it is told at once that it is gone."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class JobSummary:
    """What the index knows of a job; `estimated_gpu_s` is in GPU-seconds, `done` the share of it that is behind."""

    id: str
    tenant: str
    state: State
    pool: str
    estimated_gpu_s: float
    done: float
    retry_of: str | None
    revision: int


@dataclass(frozen=True)
class QueuePlace:
    """Where a queued job stands: `position` 1 is next, `gpu_s_ahead` is the work of its pool before it."""

    position: int
    gpu_s_ahead: float


@dataclass(frozen=True)
class Page:
    """A part of a list: ids in its order, and whether more follow."""

    ids: tuple[str, ...]
    has_more: bool


class JobIndex:
    """Jobs by tenant and state, queues by pool, and listeners of single jobs. For one event loop."""

    def __init__(self, max_jobs: int = MAX_JOBS) -> None:
        self._max_jobs = max_jobs
        self._jobs: dict[str, JobSummary] = {}
        self._ids: dict[tuple[str, State], list[str]] = defaultdict(list)
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
            except TimeoutError:
                continue  # a replay is due
            except VitascopeError as error:
                log.warning("ledger cannot be followed", error=str(error))
            await asyncio.sleep(RETRY_S)

    async def _replay(self, changes: AsyncIterator[Stamped | None]) -> None:
        unseen = set(self._jobs)
        async for stamped in changes:
            if stamped is None:
                break
            unseen.discard(stamped.record.id)
            self.apply(stamped)
        else:
            return
        for job in unseen:
            self.forget(job)
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
        return sum(len(ids) for (owner, s), ids in self._ids.items() if s is state and tenant in {None, owner})

    def find_page(
        self,
        tenant: str,
        states: Sequence[State],
        *,
        limit: int,
        after: str | None = None,
        is_descending: bool = True,
    ) -> Page:
        """The next jobs of a list in the order of their ids, which is that of their creation.

        `after` is the id at which the last page ended, whether or not that job is still listed: jobs that come or
        go meanwhile move nobody to another place, so no job is shown twice and none that stays is left out.
        """
        found: list[str] = []
        for state in states:
            ids = self._ids.get((tenant, state), [])
            if is_descending:
                end = len(ids) if after is None else bisect_left(ids, after)
                found += ids[max(0, end - limit - 1) : end]
            else:
                start = 0 if after is None else bisect_right(ids, after)
                found += ids[start : start + limit + 1]
        found.sort(reverse=is_descending)
        return Page(tuple(found[:limit]), len(found) > limit)

    def find_place(self, job: str) -> QueuePlace | None:
        """The place of a queued job in its pool, first come first served; None if it is not queued.

        What runs counts as ahead with the share that is not yet done.
        """
        summary = self._jobs.get(job)
        if summary is None or summary.state is not State.QUEUED:
            return None
        queue = self._queued[summary.pool]
        ahead = bisect_left(queue, job)
        gpu_s = sum(self._left_gpu_s(other) for other in islice(queue, ahead))
        gpu_s += sum(self._left_gpu_s(other) for other in self._running[summary.pool])
        return QueuePlace(ahead + 1, gpu_s)

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

    def _left_gpu_s(self, job: str) -> float:
        summary = self._jobs[job]
        return summary.estimated_gpu_s * (1.0 - summary.done)

    def _add(self, summary: JobSummary) -> None:
        self._jobs[summary.id] = summary
        insort(self._ids[summary.tenant, summary.state], summary.id)
        if summary.state is State.QUEUED:
            insort(self._queued[summary.pool], summary.id)
        if summary.state is State.RUNNING:
            self._running[summary.pool].add(summary.id)
        if summary.retry_of is not None:
            self._retries[summary.retry_of] = summary.id

    def _remove(self, summary: JobSummary) -> None:
        del self._jobs[summary.id]
        _drop(self._ids[summary.tenant, summary.state], summary.id)
        if summary.state is State.QUEUED:
            _drop(self._queued[summary.pool], summary.id)
        self._running[summary.pool].discard(summary.id)
        if summary.retry_of is not None:
            self._retries.pop(summary.retry_of, None)

    def _forget_oldest(self) -> None:
        ended = [ids[0] for (_, state), ids in self._ids.items() if state in TERMINAL and ids]
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
        pool=record.admission.pool,
        estimated_gpu_s=record.admission.estimated_gpu_s,
        done=_compute_done(record),
        retry_of=record.retry_of,
        revision=stamped.revision,
    )


def _compute_done(record: JobRecord) -> float:
    return min(record.run.step / record.run.steps, 1.0) if record.run.steps else 0.0


def _drop(ids: list[str], job: str) -> None:
    place = bisect_left(ids, job)
    assert ids[place] == job, "an indexed job stands in the list of its state"
    del ids[place]
