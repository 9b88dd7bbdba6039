"""The janitor: whatever has been kept for long enough, or is of no use to anybody, goes.

One works at a time, by a lease; that is economy and not safety: everything it does may be done twice. It decides with
`expirer` and `orphans`, and before each removal it makes sure that the ledger it asked is still there.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import suppress
from datetime import datetime, timedelta
from math import inf

import structlog

from vitascope.contracts.expiry import Retention
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.objects import read_place
from vitascope.publish.epoch import Epoch, read_sure_epoch
from vitascope.publish.expirer import Expirer
from vitascope.publish.groups_seen import GroupsSeen
from vitascope.publish.mend import restore_copy
from vitascope.publish.metrics import LAST_ROUND, REMOVED, REMOVED_BYTES
from vitascope.publish.orphans import Orphan, OrphanFinder
from vitascope.runtime.ports import Bus, Clock, Ledger, ObjectStore, Registry

JANITOR_EVERY_S = 600.0
"""Between two rounds; each walks over all records and all objects."""
PERIOD_SHARE = 20
"""A short retention is kept as well: a file goes at most a twentieth of its time too late."""
PERIOD_MIN_S = 1.0
LOOK_S = 15.0
"""Between two looks at the lease and at the groups that are there."""
LEASE_NAME = "janitor"
LEASE_S = 60.0
"""A janitor that died is replaced after so long."""
RENEW_S = LEASE_S / 4
"""How old a lease may be within a round before it is renewed."""
RETRY_S = 60.0
"""From a round that could not do it all to the next."""
WORK_AGE = timedelta(seconds=60)
"""A work event must have been of no use for so long: those of a moment are being acknowledged."""
MAX_PAGES = 100
"""Pages of due records in one round; the next round goes on."""

log = structlog.get_logger(__name__)

Part = Callable[[Epoch], Coroutine[None, None, None]]


class LeaseLost(Exception):
    """Another janitor is at work."""


class Janitor:
    """Runs beside others of its kind; only the one that holds the lease works."""

    def __init__(
        self,
        ledger: Ledger,
        bus: Bus,
        registry: Registry,
        store: ObjectStore,
        *,
        clock: Clock,
        holder: str,
        retention: Retention,
    ) -> None:
        self._ledger, self._bus, self._registry, self._store = ledger, bus, registry, store
        self._clock, self._holder = clock, holder
        self._period_s = compute_period_s(retention)
        self._expirer = Expirer(ledger, store, retention)
        self._finder = OrphanFinder(ledger, bus, store)
        self._groups = GroupsSeen()
        self._useless_since: dict[str, datetime] = {}
        self._renewed_s = -inf

    async def run(self) -> None:
        """Look after the lease, and do a round when one is due; until cancelled."""
        loop = asyncio.get_running_loop()
        due_s = loop.time()
        try:
            while True:
                if await self._look() and loop.time() >= due_s:
                    is_done = await self.run_round()
                    due_s = loop.time() + (self._period_s if is_done else min(self._period_s, RETRY_S))
                await asyncio.sleep(min(LOOK_S, self._period_s))
        finally:
            with suppress(VitascopeError):
                await self._registry.release_lease(LEASE_NAME, self._holder)

    async def run_round(self) -> bool:
        """Everything once, under one epoch; whether all could be done.

        Without the ledger and the store nothing can be judged; what fails later costs the part that it is in.
        """
        try:
            epoch = await read_sure_epoch(self._ledger, self._store, self._clock)
        except VitascopeError as error:
            log.warning("janitor cannot judge now", error=str(error))
            return False
        parts: tuple[Part, ...] = (
            self._drop_consumers,  # first: who is there is known now, and not after a long round
            self._end_due,
            self._remove_objects,
            self._remove_copies,
            self._abort_uploads,
            self._drop_work,
        )
        outcomes = [await self._do(part, epoch) for part in parts]
        if all(outcomes):
            LAST_ROUND.set(self._clock.now().timestamp())
        return all(outcomes)

    async def _do(self, part: Part, epoch: Epoch) -> bool:
        try:
            await part(epoch)
        except VitascopeError as error:
            log.warning("janitor could not do it all", part=part.__name__, error=str(error))
            return False
        except LeaseLost:
            log.info("another janitor is at work", part=part.__name__)
            return False
        return True

    async def _look(self) -> bool:
        """Whether the lease is ours; and who is there."""
        try:
            rows = await self._registry.get_groups()
            self._groups.note([(row.pool, row.group) for row in rows], self._clock.now())
            return await self._renew()
        except VitascopeError as error:
            log.warning("janitor cannot see the registry", error=str(error))
            self._groups.interrupt()
            return False

    async def _end_due(self, epoch: Epoch) -> None:
        """Expire and forget what is due, and see that live records have their copies."""
        for _ in range(MAX_PAGES):
            due = await self._expirer.find_due(epoch.now)
            for stamped in due.to_expire:
                await self._hold()
                if await self._expirer.expire(stamped, epoch.now):
                    REMOVED.labels(kind="expired").inc()
            for stamped in due.to_forget:
                await self._hold()
                if await self._expirer.forget(stamped):
                    REMOVED.labels(kind="forgotten").inc()
            if not due.is_full:
                break
        for job in due.live:
            await restore_copy(self._ledger, self._store, job)

    async def _remove_objects(self, epoch: Epoch) -> None:
        await self._remove(epoch, self._finder.find_objects(epoch))

    async def _remove_copies(self, epoch: Epoch) -> None:
        """Remove copies of jobs that never were; one whose job comes about at this very moment is put again."""
        async for orphans in self._finder.find_copies(epoch):
            await self._remove_keys(epoch, orphans)
            for orphan in orphans:
                place = read_place(orphan.name)
                assert place is not None, "the finder passes over other keys"
                await restore_copy(self._ledger, self._store, place.job)

    async def _abort_uploads(self, epoch: Epoch) -> None:
        for orphan in await self._finder.list_uploads(epoch):
            assert orphan.upload is not None, "uploads are found with it"
            await self._hold()
            await self._store.abort_upload(orphan.upload)
            _note([orphan])

    async def _drop_work(self, epoch: Epoch) -> None:
        """Take away the events that have been of no use for long enough; the scheduler publishes what is missing."""
        found = {orphan.name: orphan for orphan in await self._finder.list_work()}
        now = epoch.now
        self._useless_since = {subject: self._useless_since.get(subject, now) for subject in found}
        for subject, since in tuple(self._useless_since.items()):
            if now - since >= WORK_AGE:
                await self._check(epoch)
                await self._bus.drop_work(subject)
                del self._useless_since[subject]
                _note([found[subject]])

    async def _drop_consumers(self, _epoch: Epoch) -> None:
        kept = self._groups.list_kept(self._clock.now())
        if kept is not None:
            names = await self._bus.drop_idle_consumers(kept)
            REMOVED.labels(kind="consumer").inc(len(names))
            for name in names:
                log.info("consumer of a lost group removed", consumer=name)

    async def _remove(self, epoch: Epoch, batches: AsyncIterator[list[Orphan]]) -> None:
        async for orphans in batches:
            await self._remove_keys(epoch, orphans)

    async def _remove_keys(self, epoch: Epoch, orphans: list[Orphan]) -> None:
        await self._check(epoch)
        await self._store.remove([orphan.name for orphan in orphans])
        _note(orphans)

    async def _check(self, epoch: Epoch) -> None:
        """Go on, or not: the lease is ours, and the answers came from the ledger that is there now.

        Raises:
            LeaseLost: as said.
            VitascopeError: `bus_unavailable`, also if the ledger is another one by now.
        """
        await self._hold()
        if await self._ledger.get_birth() != epoch.birth:
            raise VitascopeError(FailureCode.BUS_UNAVAILABLE, "The ledger was lost meanwhile.")

    async def _hold(self) -> None:
        """Renew the lease if it is due, or end the round."""
        is_fresh = asyncio.get_running_loop().time() - self._renewed_s < RENEW_S
        if not is_fresh and not await self._renew():
            raise LeaseLost

    async def _renew(self) -> bool:
        began_s = asyncio.get_running_loop().time()
        is_ours = await self._registry.acquire_lease(LEASE_NAME, self._holder, LEASE_S)
        self._renewed_s = began_s if is_ours else -inf
        return is_ours


def compute_period_s(retention: Retention) -> float:
    """Seconds between two rounds."""
    return max(PERIOD_MIN_S, min(JANITOR_EVERY_S, retention.files.total_seconds() / PERIOD_SHARE))


def _note(orphans: list[Orphan]) -> None:
    for orphan in orphans:
        REMOVED.labels(kind=orphan.kind.value).inc()
        REMOVED_BYTES.inc(orphan.bytes)
        log.info("orphan removed", kind=orphan.kind, name=orphan.name, why=orphan.why, bytes=orphan.bytes)
