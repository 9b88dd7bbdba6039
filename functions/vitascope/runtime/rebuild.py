"""Rebuild a lost ledger from the copies of its records; what is there already stays as it is.

For each copy, in this order, so that whoever dies in between is finished by the next run, and two at once do no harm:

1. the copy is replaced by the record that is to be: its attempt is raised, so that whoever still works for the lost
   ledger is stale, and so that a second loss raises it once more;
2. the record is created in the ledger; of two who do it one wins, and the other has the copy say what the ledger says;
3. what the job's idempotency key stands for is remembered again: whoever finds the key finds the record.

When all copies have been read, the ledger is marked as complete. Memory does not grow with the number of copies.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import datetime

import structlog
from pydantic import ValidationError

from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.flow import State
from vitascope.contracts.idempotency import recover_draw
from vitascope.contracts.jobs import JobRecord
from vitascope.contracts.objects import ObjectClass, read_place
from vitascope.contracts.transitions import rebuild
from vitascope.runtime.completeness import Completeness, RebuildMark, is_of_lost_ledger, save_mark
from vitascope.runtime.copies import keep_copy, put_copy
from vitascope.runtime.ports import Clock, Conflict, Ledger, ObjectEntry, ObjectStore

RECORD_VERSION = 1
"""Copies of another version are for people to look at."""
CONCURRENCY = 16
"""Copies in work at once: enough to hide the round trips, few enough to leave both servers to those who work."""
BATCH = 2000
"""Entries of the listing that are held at once; after each the log says how far it is."""
MAX_LISTED = 1000
"""Broken copies that are listed by key; more are only counted."""

log = structlog.get_logger(__name__)


@dataclass
class RebuildReport:
    """What became of the copies.

    Attributes:
        copies: copies that were read or found to be of a job that is there.
        present: jobs that the ledger had.
        live: jobs created anew that go on.
        ended: jobs created anew as they had ended.
        left: copies that are no older than the ledger: acceptances that nobody was told of.
        broken: copies that cannot be read.
        broken_keys: the first of them.
    """

    copies: int = 0
    present: int = 0
    live: int = 0
    ended: int = 0
    left: int = 0
    broken: int = 0
    broken_keys: list[str] = field(default_factory=list)

    @property
    def rebuilt(self) -> int:
        """Jobs created anew."""
        return self.live + self.ended

    def note_broken(self, key: str, why: str) -> None:
        """A copy that cannot be read."""
        log.error("copy cannot be read", key=key, why=why)
        self.broken += 1
        if len(self.broken_keys) < MAX_LISTED:
            self.broken_keys.append(key)


class Rebuilder:
    """Reads every copy and creates what the ledger lacks."""

    def __init__(self, ledger: Ledger, store: ObjectStore, clock: Clock) -> None:
        self._ledger, self._store, self._clock = ledger, store, clock

    async def complete(self) -> RebuildReport | None:
        """Rebuild the ledger unless it is complete; None if it was.

        Raises:
            VitascopeError: the ledger or the store cannot be reached. What was done stays done; call it again.
        """
        if await Completeness(self._ledger, self._store).is_complete():
            return None
        return await self.run()

    async def run(self, *, with_younger: bool = False) -> RebuildReport:
        """Rebuild the ledger from all copies, those that are no older than itself too if so asked, and mark it.

        Raises:
            VitascopeError: as `complete`.
        """
        birth, report = await self._ledger.get_birth(), RebuildReport()
        log.info("ledger is being rebuilt", birth=birth.isoformat())
        batch: list[ObjectEntry] = []
        async for entry in self._scan():
            batch.append(entry)
            if len(batch) == BATCH:
                await self._take(batch, None if with_younger else birth, report)
                log.info("ledger is being rebuilt", copies=report.copies, live=report.live, ended=report.ended)
                batch = []
        await self._take(batch, None if with_younger else birth, report)
        await save_mark(self._store, RebuildMark(birth=birth, at=self._clock.now()))
        log.info("ledger is complete", copies=report.copies, live=report.live, ended=report.ended, broken=report.broken)
        return report

    async def _scan(self) -> AsyncIterator[ObjectEntry]:
        """The copies to go by: of an ended job that of its end, which the listing has first."""
        ended = ""
        async for entry in self._store.scan(f"{ObjectClass.RECORDS}/"):
            place = read_place(entry.key)
            if place is not None and entry.key == place.ended_record_key:
                ended = place.job
            if place is None or entry.key != place.live_record_key or place.job != ended:
                yield entry

    async def _take(self, batch: list[ObjectEntry], birth: datetime | None, report: RebuildReport) -> None:
        places = iter(batch)  # shared: each takes the next one that nobody has

        async def take_some() -> None:
            for entry in places:
                await self._take_one(entry, birth, report)

        takers = [asyncio.create_task(take_some(), name=f"rebuild {number}") for number in range(CONCURRENCY)]
        try:
            await asyncio.gather(*takers)
        finally:
            for taker in takers:
                taker.cancel()
            await asyncio.gather(*takers, return_exceptions=True)

    async def _take_one(self, entry: ObjectEntry, birth: datetime | None, report: RebuildReport) -> None:
        place = read_place(entry.key)
        if place is None or entry.key not in place.record_keys:
            report.note_broken(entry.key, "no key of a record")
            return
        current = await self._ledger.get(place.job)
        if current is not None:
            report.copies += 1
            report.present += 1
            if birth is None or is_of_lost_ledger(current.record.times.created, birth):
                await self._remember(current.record)  # whoever created it may have died before this
            return
        copy = await self._load(entry.key, report)
        if copy is None:
            return
        report.copies += 1
        if birth is not None and not is_lost(copy, entry.modified, birth):
            report.left += 1
            return
        await self._create(copy, report)

    async def _load(self, key: str, report: RebuildReport) -> JobRecord | None:
        try:
            copy = JobRecord.from_bytes(await self._store.get(key))
        except ValidationError as error:
            report.note_broken(key, f"{error.error_count()} fields are wrong")
            return None
        except VitascopeError as error:
            if error.code is not FailureCode.OBJECT_MISSING:  # else it was forgotten meanwhile
                raise
            return None
        place = read_place(key)
        if copy.version != RECORD_VERSION or place is None or copy.id != place.job:
            report.note_broken(key, f"version {copy.version} of {copy.id}")
            return None
        return copy

    async def _create(self, copy: JobRecord, report: RebuildReport) -> None:
        record = rebuild(copy)
        if not record.is_terminal:
            record = drop_missing(record, await self._find_missing(record))
        if record.run.attempt != copy.run.attempt:
            await put_copy(self._store, record)
        try:
            await self._ledger.create(record)
        except Conflict:
            report.present += 1
            await self._give_way(record)
        else:
            report.ended += record.is_terminal
            report.live += not record.is_terminal
            log.info("job rebuilt", job=record.id, state=record.state, attempt=record.run.attempt)
        await self._remember(record)

    async def _give_way(self, record: JobRecord) -> None:
        """Somebody else has created the job, and it may have gone on: our copy must not stay over a newer one."""
        current = await self._ledger.get(record.id)
        if current is not None:
            await keep_copy(self._ledger, self._store, current.record)

    async def _find_missing(self, record: JobRecord) -> frozenset[str]:
        """Keys of objects that the record would go on from and that the store no longer has."""
        checkpoint = record.run.checkpoint.object if record.run.checkpoint else None
        refs = [ref for ref in (record.run.latents, checkpoint) if ref is not None]
        return frozenset([ref.key for ref in refs if await self._store.size(ref.key) != ref.bytes])

    async def _remember(self, record: JobRecord) -> None:
        draw = recover_draw(record)
        if draw is None:
            return
        key = record.admission.idempotency_key
        assert key is not None, "a draw is of a request with a key"
        known = await self._ledger.remember(record.request.tenant, key, draw.to_bytes())
        if known is not None and known != draw.to_bytes():
            log.debug("idempotency key was remembered", job=record.id)


def is_lost(copy: JobRecord, modified: datetime, birth: datetime) -> bool:
    """Whether a job that the ledger lacks was in one that is lost. If not, its acceptance was never answered. Pure.

    By three witnesses, since any clock may be wrong: when the job was accepted, when the store took the copy, and that
    the job has come further than an acceptance brings it. An expired one of this ledger was forgotten.
    """
    run = copy.run
    beginning = 0 if copy.retry_of is None else 1
    has_gone_on = copy.state is not State.EXPIRED and (copy.is_terminal or run.attempt > beginning)
    return is_of_lost_ledger(copy.times.created, birth) or modified < birth or has_gone_on


def drop_missing(record: JobRecord, missing: frozenset[str]) -> JobRecord:
    """A live record that points to nothing that is gone: denoise makes again what is missing. Pure."""
    run = record.run
    changes: dict[str, object] = {}
    checkpoint = None if run.checkpoint is None or run.checkpoint.object.key in missing else run.checkpoint
    is_decodable = run.latents is not None and run.latents.key not in missing
    if run.state is State.DECODING and is_decodable:
        return record
    if run.state is State.DECODING:
        changes |= {"state": State.QUEUED, "latents": None, "failures": 0}
    if changes or checkpoint is not run.checkpoint:
        changes |= {"checkpoint": checkpoint, "step": checkpoint.step if checkpoint else 0}
    return record.model_copy(update={"run": run.model_copy(update=changes)}) if changes else record
