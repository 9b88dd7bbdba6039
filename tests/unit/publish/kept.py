"""A service in memory whose time a test holds: ledger, bus, registry and a store that dates its objects."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from records import object_ref, record_in
from vitascope.adapters.memory import HeldTime, MemoryBroker, MemoryObjectStore
from vitascope.contracts import objects
from vitascope.contracts.expiry import Retention
from vitascope.contracts.flow import State
from vitascope.contracts.jobs import Checkpoint, JobRecord
from vitascope.contracts.objects import REBUILT_KEY
from vitascope.publish.janitor import Janitor
from vitascope.runtime.completeness import RebuildMark
from vitascope.runtime.copies import put_copy
from vitascope.runtime.ports import Stamped

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
RETENTION = Retention(files=7 * DAY, record=3 * DAY)


@dataclass
class Kept:
    """Everything that a janitor looks after; the ledger is three hours old, and complete."""

    time: HeldTime = field(default_factory=HeldTime)

    def __post_init__(self) -> None:
        self.broker = MemoryBroker(timing=self.time)
        self.ledger, self.bus, self.registry = self.broker.ledger, self.broker.bus, self.broker.registry
        self.store = MemoryObjectStore(clock=self.time)
        self.pass_time(3 * HOUR)

    def pass_time(self, by: timedelta) -> None:
        """Move the clock of all of it."""
        self.time.advance(by.total_seconds())

    async def complete(self) -> None:
        """Say that the ledger holds every job."""
        mark = RebuildMark(birth=await self.ledger.get_birth(), at=self.time.now())
        await self.store.put(REBUILT_KEY, mark.model_dump_json().encode(), "application/json")

    def make_janitor(self, holder: str = "here:1") -> Janitor:
        """One janitor."""
        return Janitor(
            self.ledger, self.bus, self.registry, self.store, clock=self.time, holder=holder, retention=RETENTION
        )

    async def put(self, *keys: str) -> None:
        """Objects of three bytes."""
        for key in keys:
            await self.store.put(key, b"123", "application/octet-stream")

    async def add(self, state: State, **changes: Any) -> Stamped:
        """A job with its copy and one object of each class, all that its record may point to included."""
        record = with_files(record_in(state, self.time.now()), **changes)
        await put_copy(self.store, record)
        await self.put(*name_files(record))
        return await self.ledger.create(record)

    def list_keys(self, job: str) -> list[str]:
        """What is left of a job: the class of each object, and its attempt if it is not the first."""
        places = (objects.read_place(key) for key in self.store.objects)
        mine = [place for place in places if place is not None and place.job == job]
        return sorted(f"{place.kind}{'' if place.attempt in {None, 1} else place.attempt}" for place in mine)

    async def load(self, job: str) -> JobRecord | None:
        """The ledger's record."""
        stamped = await self.ledger.get(job)
        return stamped.record if stamped else None


def with_files(record: JobRecord, **run: Any) -> JobRecord:
    """The record with references to objects of its first attempt, as far as its state has them."""
    checkpoint = Checkpoint(object=object_ref(objects.checkpoint_key(record, 1, 10)), step=10, fingerprint="f")
    changes: dict[str, Any] = {"checkpoint": checkpoint}
    if record.run.latents is not None or record.state is State.FAILED:
        changes["latents"] = object_ref(objects.latents_key(record, 1))
    result = record.result
    if result.output is not None:
        output, still = object_ref(objects.output_key(record, 1)), object_ref(objects.thumbnail_key(record, 1))
        result = result.model_copy(update={"output": output, "thumbnail": still})
    return record.model_copy(update={"run": record.run.model_copy(update=changes | run), "result": result})


def name_files(record: JobRecord, attempt: int = 1) -> list[str]:
    """An object of each class that a job may have, of one attempt."""
    return [
        f"{objects.job_prefix(objects.ObjectClass.INPUTS, record)}reference",
        objects.checkpoint_key(record, attempt, 10),
        objects.latents_key(record, attempt),
        objects.chunk_key(record, attempt, 0),
        objects.output_key(record, attempt),
    ]
