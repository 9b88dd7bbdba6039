"""Finds what nobody has a use for. It changes nothing: the janitor removes, `vitascope doctor` only tells.

What makes an orphan, so that no outage, no loss of the ledger and no bad clock makes one of what is needed:

- Objects of a job without a record are orphans only if the store has no copy of the record either. A copy is there
  from before the record is until both are forgotten, so a job without one can come back from nowhere.
- Objects of a job with a record, if the record has no use for them (`needs`); of a live job's old attempts those stay,
  too, that its copy points to, since a rebuild would go on from there.
- A copy without a record, if its job was accepted under this ledger: its acceptance was never answered. A copy from
  before the ledger's birth is what the ledger is rebuilt from, and no orphan.
- A work event of a job that has ended or is gone, or that its job is past or has at another group.
- An upload in parts that was begun long ago.

Nothing of a job whose record is there and cannot be read is judged: an older version of the product may know it.

All of them must be older than a grace time, and a ledger that is not yet rebuilt judges nothing that is older than
itself. Every answer of the ledger is newer than the listing that it is about: what is listed had its record before.
Servers that are away raise `VitascopeError`, and then nothing is found.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

import structlog
from pydantic import ValidationError

from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.flow import STAGES, State
from vitascope.contracts.ids import read_job_time
from vitascope.contracts.jobs import JobRecord
from vitascope.contracts.objects import ObjectClass, ObjectPlace, read_place
from vitascope.contracts.subjects import WorkPlace, read_work_subject
from vitascope.publish.epoch import Epoch
from vitascope.publish.needs import is_needed
from vitascope.publish.sweep import SWEPT
from vitascope.runtime.ports import Bus, Ledger, ObjectEntry, ObjectStore, UnfinishedUpload, UnreadableRecord

UPLOAD_AGE = timedelta(hours=6)
"""An upload that was begun so long ago is not going on: the largest object takes minutes."""
BATCH = 1000
"""Objects of one job that are judged at a time; a longer clip's chunks come in several batches."""

log = structlog.get_logger(__name__)


class OrphanKind(StrEnum):
    """What is left over."""

    OBJECT = "object"
    COPY = "copy"
    UPLOAD = "upload"
    WORK = "work event"


@dataclass(frozen=True)
class Orphan:
    """One thing that nobody has a use for; `name` is its key or subject, `bytes` the room it takes where it is known.

    `upload` is what the store calls an unfinished upload.
    """

    kind: OrphanKind
    name: str
    why: str
    bytes: int = 0
    upload: UnfinishedUpload | None = None


class OrphanFinder:
    """Looks through the store and the bus; memory does not grow with them."""

    def __init__(self, ledger: Ledger, bus: Bus, store: ObjectStore) -> None:
        self._ledger, self._bus, self._store = ledger, bus, store

    async def find_objects(self, epoch: Epoch) -> AsyncIterator[list[Orphan]]:
        """Objects of jobs that are gone or do not need them, job by job."""
        for kind in SWEPT:
            async for batch in self._scan_jobs(kind):
                old = [entry for entry in batch if epoch.is_old(entry.modified)]
                if old and (found := await self._judge(epoch, old)):
                    yield found

    async def find_copies(self, epoch: Epoch) -> AsyncIterator[list[Orphan]]:
        """Copies of records that never were, one by one."""
        async for entry in self._store.scan(f"{ObjectClass.RECORDS}/"):
            place = read_place(entry.key)
            if place is None or not epoch.is_old(entry.modified):
                continue
            if not (epoch.is_ours(entry.modified) and _is_named_under(epoch, place.job)):
                continue
            if not await self._is_recorded(place.job):
                yield [Orphan(OrphanKind.COPY, entry.key, "its job was never accepted", entry.bytes)]

    async def list_uploads(self, epoch: Epoch) -> list[Orphan]:
        """Uploads of ours that nobody goes on with."""
        return [
            Orphan(OrphanKind.UPLOAD, upload.key, f"begun {upload.begun:%Y-%m-%d %H:%M}", upload=upload)
            for upload in await self._store.list_uploads()
            if read_place(upload.key) is not None and epoch.is_old(upload.begun, UPLOAD_AGE)
        ]

    async def list_work(self) -> list[Orphan]:
        """Work events that nobody waits for. An event has no age: whoever acts on one looks at it twice."""
        found = []
        for subject in await self._bus.list_work():
            place = read_work_subject(subject)
            if place is None:
                continue
            try:
                current = await self._ledger.get(place.job)
            except UnreadableRecord:
                continue
            if why := explain_stale(current.record if current else None, place):
                found.append(Orphan(OrphanKind.WORK, subject, why))
        return found

    async def _scan_jobs(self, kind: ObjectClass) -> AsyncIterator[list[ObjectEntry]]:
        """Entries of one job after the other; keys of another form are not ours to judge."""
        batch: list[ObjectEntry] = []
        job: str | None = None
        async for entry in self._store.scan(f"{kind}/"):
            place = read_place(entry.key)
            if place is None:
                continue
            if batch and (place.job != job or len(batch) >= BATCH):
                yield batch
                batch = []
            job = place.job
            batch.append(entry)
        if batch:
            yield batch

    async def _judge(self, epoch: Epoch, batch: list[ObjectEntry]) -> list[Orphan]:
        """The orphans among objects of one job."""
        place = read_place(batch[0].key)
        assert place is not None, "others are not in a batch"
        try:
            current = await self._ledger.get(place.job)
        except UnreadableRecord as error:
            log.warning("objects not judged", job=place.job, error=str(error))
            return []
        if current is None:
            return await self._judge_unrecorded(epoch, place, batch)
        record = current.record
        unneeded = [entry for entry in batch if not is_needed(record, entry.key)]
        if unneeded and not record.is_terminal:
            unneeded = await self._spare_copied(place, unneeded)
        return [_make(entry, f"the job is {record.state} and does not need it") for entry in unneeded]

    async def _judge_unrecorded(self, epoch: Epoch, place: ObjectPlace, batch: list[ObjectEntry]) -> list[Orphan]:
        judged = [entry for entry in batch if epoch.is_complete or epoch.is_ours(entry.modified)]
        if not judged:
            return []
        for key in place.record_keys:
            if await self._store.size(key) is not None:
                return []
        return [_make(entry, "there is no such job") for entry in judged]

    async def _is_recorded(self, job: str) -> bool:
        """Whether the ledger has a record of the job, even one that cannot be read."""
        try:
            return await self._ledger.get(job) is not None
        except UnreadableRecord:
            return True

    async def _spare_copied(self, place: ObjectPlace, unneeded: list[ObjectEntry]) -> list[ObjectEntry]:
        """Those that the copy of the record does not need either; none if it cannot be read."""
        try:
            copy = JobRecord.from_bytes(await self._store.get(place.live_record_key))
        except ValidationError:
            return []
        except VitascopeError as error:
            if error.code is not FailureCode.OBJECT_MISSING:
                raise
            return unneeded
        return [entry for entry in unneeded if not is_needed(copy, entry.key)]


def explain_stale(record: JobRecord | None, place: WorkPlace) -> str:
    """Why nobody waits for a work event; empty if somebody does. Pure."""
    if record is None:
        return "there is no such job"
    if record.state not in STAGES[place.stage].states:
        return f"the job is {record.state}"
    if record.state is State.RUNNING and place.group != record.run.group:
        return f"the job runs at {record.run.group}"
    return "" if place.pool == record.admission.pool else f"the job is of the pool {record.admission.pool}"


def _is_named_under(epoch: Epoch, job: str) -> bool:
    """Whether the job was accepted under the epoch's ledger, by its id; an id of no time that there is does not say."""
    try:
        return epoch.is_ours(read_job_time(job))
    except ValueError:
        return False


def _make(entry: ObjectEntry, why: str) -> Orphan:
    return Orphan(OrphanKind.OBJECT, entry.key, why, entry.bytes)
