"""Tenure: the time during which a piece of work may go on, and how it learns that the time is over.

The fence is the compare-and-set of each record change. Tenure is the early warning: it follows the record, so that
a cancelled or superseded run stops at its next step, chunk or group of pictures instead of at its end.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from enum import StrEnum

import structlog

from vitascope.contracts.events import WorkItem
from vitascope.contracts.failures import VitascopeError
from vitascope.contracts.flow import STAGES, State
from vitascope.contracts.jobs import JobRecord
from vitascope.contracts.transitions import StaleAttempt, check_fence
from vitascope.runtime.beside import beside
from vitascope.runtime.ports import Ledger, Stamped
from vitascope.runtime.stage import HandBack

WATCH_RETRY_S = 1.0
"""Between two tries to follow the record while the ledger cannot be reached; ends with the work itself."""

log = structlog.get_logger(__name__)


class Halt(StrEnum):
    """Why a piece of work has to stop."""

    STALE = "stale"
    """The record is no longer ours: cancelled, failed, or at another attempt. Nothing may be changed any more."""
    DRAIN = "drain"
    """The process ends: what is done is kept, somebody else goes on."""
    PREEMPT = "preempt"
    """The group is wanted for another job: what is done is kept, the job waits. Only denoise is ever asked for it."""


_RANKS = {Halt.PREEMPT: 0, Halt.DRAIN: 1, Halt.STALE: 2}


class Tenure:
    """What one piece of work knows of its right to go on.

    `is_halted` and `pause` may be called from any thread, all else from the event loop's.
    """

    def __init__(self, work: WorkItem, record: JobRecord) -> None:
        self.work, self.record = work, record
        self.halt: Halt | None = None
        self.halted = asyncio.Event()
        self._revision = 0
        self._thread_halted = threading.Event()
        self._news = asyncio.Event()

    def see(self, stamped: Stamped) -> None:
        """Take note of a record of the job, unless a newer one is known; halt if it is not ours, or not for now."""
        if stamped.revision <= self._revision:
            return
        self.record, self._revision = stamped.record, stamped.revision
        try:
            check_fence(self.record, self.work.attempt, self.work.stage)
        except StaleAttempt:
            self.order(Halt.STALE)
        self.heed_preempt()
        self.announce()

    def heed_preempt(self) -> None:
        """Halt if the record says that the group is wanted for another job."""
        if self.record.run.preempt_requested and self.record.state is State.RUNNING:
            self.order(Halt.PREEMPT)

    def order(self, halt: Halt) -> None:
        """Have the work stop at its next boundary. Stale outranks drain, which outranks preempt."""
        if self.halt is None or _RANKS[halt] > _RANKS[self.halt]:
            self.halt = halt
        self.halted.set()
        self._thread_halted.set()
        self.announce()

    def is_halted(self) -> bool:
        """Whether the work has to stop."""
        return self._thread_halted.is_set()

    def pause(self, seconds: float) -> None:
        """Block the calling thread for so long, or until the work has to stop."""
        self._thread_halted.wait(max(seconds, 0.0))

    def check(self) -> None:
        """Go on, or not.

        Raises:
            StaleAttempt: the record is no longer ours.
            HandBack: the process drains.
        """
        if self.halt is Halt.STALE:
            raise StaleAttempt(f"attempt {self.work.attempt} of {self.work.job} is over: {self.record.state}")
        if self.halt is Halt.DRAIN:
            raise HandBack

    def check_stale(self) -> None:
        """Go on, or not, whether the process drains or not.

        Raises:
            StaleAttempt: the record is no longer ours.
        """
        if self.halt is Halt.STALE:
            self.check()

    async def wait_until(self, is_so: Callable[[JobRecord], bool]) -> None:
        """Wait for a record of that kind.

        Raises:
            StaleAttempt, HandBack: as `check`.
        """
        while not is_so(self.record):
            self.check()
            await self._news.wait()

    def announce(self) -> None:
        """Wake whoever waits in `wait_until`, because something else that it looks at has changed."""
        self._news.set()
        self._news = asyncio.Event()


def has_finished(record: JobRecord, work: WorkItem) -> bool:
    """Whether this very piece of work is already done: the next stage's event may be all that is missing."""
    return record.run.attempt == work.attempt and record.state is STAGES[work.stage].done


async def load_record(ledger: Ledger, work: WorkItem) -> JobRecord:
    """The newest record of the work's job.

    Raises:
        StaleAttempt: there is none, so there is nothing to work for.
    """
    current = await ledger.get(work.job)
    if current is None:
        raise StaleAttempt(f"there is no record of {work.job}")
    return current.record


class Tenures:
    """The pieces of work that a handler has in hand."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._held: set[Tenure] = set()
        self._is_draining = False

    @asynccontextmanager
    async def hold(self, work: WorkItem, record: JobRecord) -> AsyncIterator[Tenure]:
        """A tenure that follows its record until the block ends; drained from the start once the handler drains.

        Raises:
            StaleAttempt: the record is not the work's from the start.
        """
        check_fence(record, work.attempt, work.stage)
        tenure = Tenure(work, record)
        self._held.add(tenure)
        tenure.heed_preempt()
        if self._is_draining:
            tenure.order(Halt.DRAIN)
        try:
            async with beside(_follow(self._ledger, tenure), name=f"fence of {work.job}"):
                yield tenure
        finally:
            self._held.remove(tenure)

    def drain(self) -> None:
        """Have all work stop at its next boundary."""
        self._is_draining = True
        for tenure in self._held:
            tenure.order(Halt.DRAIN)


async def _follow(ledger: Ledger, tenure: Tenure) -> None:
    while True:
        try:
            async with ledger.watch(tenure.work.job) as changes:
                async for stamped in changes:
                    if stamped is not None:
                        tenure.see(stamped)
        except VitascopeError as error:
            log.warning("record cannot be followed", job=tenure.work.job, error=str(error))
        await asyncio.sleep(WATCH_RETRY_S)
