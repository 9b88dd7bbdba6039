"""Follow the ledger with a memory across restarts: every change is handled at least once, old ones not for ever.

The ledger replays the newest record of every job to a new watcher. Handling all of them at each start would repeat a
week of ended jobs, so a mark in the object store says: whatever ended before this moment has been handled. The mark
is proven, not guessed: it is the time at which a replay began that has since been handled to its end. An hourly new
replay moves it on, and heals whatever the feed may have dropped.

A ledger that was lost is rebuilt with jobs that ended long ago, and what was made of them may be lost as well. So a
mark counts only if the ledger was complete before it.
"""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Protocol

import structlog
from pydantic import AwareDatetime, ValidationError

from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.frozen import Stored
from vitascope.contracts.objects import publish_mark_key
from vitascope.runtime.completeness import Completeness
from vitascope.runtime.ports import Clock, Ledger, ObjectStore, Stamped

REPLAY_EVERY_S = 3600.0
SKEW = timedelta(hours=1)
"""A change may be stamped so long before it is stored: clocks differ, and an outage may lie between the two."""
RETRY_FIRST_S = 0.5
RETRY_MAX_S = 30.0
"""Waits between tries double up to this; tries end with the process, since nothing may be left out."""

log = structlog.get_logger(__name__)


class ChangeHandler(Protocol):
    """What is done with each change."""

    async def handle(self, stamped: Stamped) -> None:
        """Handle a change; it may come again. `VitascopeError` means that it comes again later."""
        ...


class Mark(Stored):
    """Every job that ended before this moment has been handled."""

    ended_before: AwareDatetime


class Follower:
    """Gives every change of the ledger to one handler, in its own time."""

    def __init__(
        self,
        name: str,
        handler: ChangeHandler,
        *,
        ledger: Ledger,
        store: ObjectStore,
        clock: Clock,
    ) -> None:
        self.name = name
        self._handler, self._ledger, self._store, self._clock = handler, ledger, store, clock
        self._key = publish_mark_key(name)
        self._handled: dict[str, int] = {}

    async def run(self) -> None:
        """Follow until cancelled."""
        mark = await self._load_mark()
        while True:
            try:
                mark = await self._follow_once(await self._check_mark(mark))
            except VitascopeError as error:
                log.warning("ledger cannot be followed", follower=self.name, error=str(error))
                await asyncio.sleep(RETRY_FIRST_S)

    async def _follow_once(self, mark: Mark | None) -> Mark | None:
        """One replay and what follows it for an hour; gives the newest mark."""
        began = self._clock.now()
        try:
            async with asyncio.timeout(REPLAY_EVERY_S), self._ledger.watch() as changes:
                mark = await self._replay(changes, mark, began)
                async for stamped in changes:
                    if stamped is not None:
                        await self._handle(stamped)
        except TimeoutError:
            log.debug("replay is due", follower=self.name)
        return mark

    async def _replay(self, changes: AsyncIterator[Stamped | None], mark: Mark | None, began: datetime) -> Mark | None:
        seen: set[str] = set()
        async for stamped in changes:
            if stamped is None:
                break
            seen.add(stamped.record.id)
            if mark is None or not _has_ended_before(stamped, mark.ended_before - SKEW):
                await self._handle(stamped)
        else:
            return mark
        self._handled = {job: revision for job, revision in self._handled.items() if job in seen}
        return await self._save_mark(Mark(ended_before=began))

    async def _handle(self, stamped: Stamped) -> None:
        job = stamped.record.id
        if self._handled.get(job, 0) >= stamped.revision:
            return
        wait_s = RETRY_FIRST_S
        while True:
            try:
                await self._handler.handle(stamped)
            except VitascopeError as error:
                log.warning("change not handled yet", follower=self.name, job=job, error=str(error))
                await asyncio.sleep(wait_s)
                wait_s = min(2 * wait_s, RETRY_MAX_S)
            else:
                self._handled[job] = stamped.revision
                return

    async def _check_mark(self, mark: Mark | None) -> Mark | None:
        """The mark, unless jobs that ended before it may have come into the ledger since."""
        try:
            rebuilt = await Completeness(self._ledger, self._store).find_mark()
        except VitascopeError as error:
            log.warning("mark cannot be checked", follower=self.name, error=str(error))
            return None
        is_older = mark is not None and rebuilt is not None and rebuilt.at < mark.ended_before - SKEW
        return mark if is_older else None

    async def _load_mark(self) -> Mark | None:
        """The mark of an earlier run; without one, everything is handled."""
        try:
            return Mark.model_validate_json(await self._store.get(self._key))
        except ValidationError:
            log.warning("mark is not readable", follower=self.name)
        except VitascopeError as error:
            if error.code is not FailureCode.OBJECT_MISSING:
                log.warning("mark cannot be read", follower=self.name, error=str(error))
        return None

    async def _save_mark(self, mark: Mark) -> Mark:
        try:
            await self._store.put(self._key, mark.model_dump_json().encode(), "application/json")
        except VitascopeError as error:
            log.warning("mark cannot be saved", follower=self.name, error=str(error))
        return mark


def _has_ended_before(stamped: Stamped, moment: datetime) -> bool:
    times = stamped.record.times
    ended = times.expires or times.finished
    return stamped.record.is_terminal and ended is not None and ended < moment
