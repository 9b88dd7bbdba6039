"""The ports: what the product asks of a bus, a ledger, a registry and an object store.

`adapters.memory` keeps all of them inside one process, `adapters.jetstream` and `adapters.s3` in real servers; one
test-suite holds for both. Every method may raise `VitascopeError` with `bus_unavailable` or `store_unavailable` when
its server cannot be reached within the adapter's time limit; nothing else leaks out of a vendor's library.
"""

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from vitascope.contracts.events import CloudEvent, Control, FramesReady, Progress
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.flow import Stage
from vitascope.contracts.jobs import JobRecord, ObjectRef
from vitascope.contracts.pools import GroupRow


class Clock(Protocol):
    """The time, so that tests can hold it."""

    def now(self) -> datetime:
        """The time of day, with its zone (UTC)."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """The time of day, UTC."""
        return datetime.now(UTC)


class Conflict(Exception):
    """Compare-and-set lost: somebody else changed or made it first. Read again and decide anew."""


class UnreadableRecord(VitascopeError):
    """There is a record, and it is not one of ours: damaged, or of a version that this process does not know."""

    def __init__(self, job: str) -> None:
        super().__init__(FailureCode.INTERNAL_ERROR, f"The record of {job} cannot be read.")


# ---- ledger ---------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class ObjectEntry:
    """An object as a listing shows it; `modified` is by the store's clock, UTC."""

    key: str
    bytes: int
    modified: datetime


@dataclass(frozen=True)
class UnfinishedUpload:
    """An upload in parts that was begun and neither completed nor aborted."""

    key: str
    upload: str
    begun: datetime


@dataclass(frozen=True)
class Stamped:
    """A record as the ledger holds it; `revision` rises with every change of any record."""

    record: JobRecord
    revision: int


MIN_HISTORY = 64
"""Revisions of each record that every ledger keeps, the newest among them."""


class Ledger(Protocol):
    """The truth about jobs: records under compare-and-set, with a feed of their changes."""

    async def create(self, record: JobRecord) -> Stamped:
        """Store a new record. Raises `Conflict` if the id is taken."""
        ...

    async def get(self, job: str) -> Stamped | None:
        """The newest record, or None."""
        ...

    async def replace(self, current: Stamped, record: JobRecord) -> Stamped:
        """Compare-and-set: store `record` if the ledger still holds `current`.

        Raises:
            Conflict: it holds another.
            IllegalTransition: `contracts.transitions.check_successor` refuses the change.
        """
        ...

    def watch(self, job: str | None = None) -> AbstractAsyncContextManager[AsyncIterator[Stamped | None]]:
        """Follow changes of all records or of one: first the newest of each, then None once, then every change.

        Survives a restart of the server: after a gap each record comes again with its newest revision, so a reader
        must take equal and older revisions as news it already has. A change may be skipped over if a newer one of
        the same record follows it.
        """
        ...

    async def read_history(self, job: str, since: int) -> Sequence[Stamped]:
        """The record as it was at revision `since` and at each later one, oldest first.

        Empty if that revision is not kept any more (the last `MIN_HISTORY` of a job are), or never was this job's.
        """
        ...

    async def remember(self, tenant: str, key: str, value: bytes) -> bytes | None:
        """Create-only memory of idempotency keys: None if it was stored now, else the value stored before."""
        ...

    async def recall(self, tenant: str, key: str) -> bytes | None:
        """What is remembered under an idempotency key, if anything; changes nothing."""
        ...

    async def forget(self, current: Stamped) -> None:
        """Take a record out for ever, with its history. Raises `Conflict` if the ledger holds another revision."""
        ...

    async def get_birth(self) -> datetime:
        """When this ledger was made. A job that was accepted before that and is not in it was in one that is lost.

        Revisions rise over the loss of a ledger, too, so whoever kept some may go on comparing.
        """
        ...


# ---- bus ------------------------------------------------------------------------------------------------------------
class Delivery(Protocol):
    """One delivered work event. Exactly one of ack, retry and drop ends it; later calls do nothing."""

    @property
    def event(self) -> CloudEvent:
        """What was published."""
        ...

    @property
    def deliveries(self) -> int:
        """How often it has been delivered, this time included."""
        ...

    async def ack(self) -> None:
        """Done; returns when the server has confirmed it."""
        ...

    async def retry(self, delay_s: float) -> None:
        """Deliver it again after a while, to anybody (at most 30 s)."""
        ...

    async def drop(self, reason: str) -> None:
        """Never deliver it again."""
        ...

    async def beat(self) -> None:
        """Still at work: another `ack_wait` until it is delivered to somebody else."""
        ...


class Bus(Protocol):
    """Work events, public events, progress and control messages."""

    def is_connected(self) -> bool:
        """Whether the server is reachable at this moment, as far as the client knows; never blocks."""
        ...

    def count_connections(self) -> int:
        """How often the server has been reached: more than before means that it was away in between, however short."""
        ...

    async def publish_work(self, subject: str, event: CloudEvent) -> None:
        """Durable once it returns; a copy (equal id) inside the dedupe window is dropped."""
        ...

    async def has_work(self, subject: str) -> bool:
        """Whether an event of that exact subject waits or is being worked on."""
        ...

    async def drop_work(self, subject: str) -> None:
        """Take away the events of that exact subject; an acknowledgement that still comes for one changes nothing."""
        ...

    async def list_work(self) -> Sequence[str]:
        """The subjects of all work events that wait or are being worked on."""
        ...

    async def drop_idle_consumers(self, groups: Collection[tuple[str, str]]) -> Sequence[str]:
        """Delete the durable consumers of denoise groups that are not among `groups` (pool, group) and have no work.

        Gives the names of those deleted.
        """
        ...

    def consume(
        self,
        stage: Stage,
        pool: str,
        group: str | None = None,
        *,
        limit: int = 1,
    ) -> AbstractAsyncContextManager[AsyncIterator[Delivery]]:
        """Take work of a stage, at most `limit` deliveries unfinished at once; each goes to one consumer.

        Binds the durable consumer, re-binds after a restart of the server. Leaving the context takes nothing more
        and hands back at once what was taken but not yet yielded, so that no job waits for a process that is gone.
        """
        ...

    async def publish_event(self, subject: str, event: CloudEvent) -> None:
        """A public event: durable once it returns; copies are dropped."""
        ...

    async def publish_dead(self, subject: str, event: CloudEvent) -> None:
        """An event that failed past its last try, for people to look at."""
        ...

    async def publish_progress(self, subject: str, progress: Progress | FramesReady) -> None:
        """The newest state under a subject replaces the one before; may be lost without harm."""
        ...

    def watch_progress(self, subject: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """The newest message under a subject, if there is one, and then each that follows (JSON bytes).

        A subject that ends in `>` stands for all that begin so; each has a newest message of its own.
        """
        ...

    async def send_control(self, group: str, control: Control) -> None:
        """Tell a group at once; not kept."""
        ...

    def watch_control(self, group: str) -> AbstractAsyncContextManager[AsyncIterator[Control]]:
        """What others tell a group, from now on."""
        ...


# ---- registry -------------------------------------------------------------------------------------------------------
class Registry(Protocol):
    """Who is there: rows of GPU groups, and leases of which one process at a time holds each."""

    async def put_group(self, row: GroupRow) -> None:
        """Renew a group's row; it vanishes by itself when it is not renewed for `pools.LEASE_S`."""
        ...

    async def remove_group(self, row: GroupRow) -> None:
        """Take the row away now."""
        ...

    async def get_groups(self) -> Sequence[GroupRow]:
        """All rows that are there, in the order of their names."""
        ...

    def watch_groups(self) -> AbstractAsyncContextManager[AsyncIterator[GroupRow | str | None]]:
        """First all rows, then None once, then each new row; a text is the `pool.group` of a row taken away.

        Rows that vanish by themselves are not announced: their `seen` tells.
        """
        ...

    async def acquire_lease(self, name: str, holder: str, ttl_s: float) -> bool:
        """Take or renew a lease; False while another holder's is younger than `ttl_s`."""
        ...

    async def release_lease(self, name: str, holder: str) -> None:
        """Give a lease back, if this holder has it."""
        ...


# ---- objects --------------------------------------------------------------------------------------------------------
class ObjectStore(Protocol):
    """Tensors, frames and files. What a put returned is in the store, whole.

    Errors: `object_missing`, `object_corrupt`, `store_unavailable`, `store_full`.
    """

    async def put(self, key: str, content: bytes | bytearray | memoryview, content_type: str) -> ObjectRef:
        """Store bytes; verified by length and checksum before it returns."""
        ...

    async def put_file(self, key: str, path: Path, content_type: str) -> ObjectRef:
        """Store a file, in parts of bounded size; verified likewise."""
        ...

    async def get(self, ref: ObjectRef | str) -> bytes:
        """The whole object; with an `ObjectRef`, length and checksum are verified."""
        ...

    async def get_file(self, ref: ObjectRef, path: Path) -> None:
        """The whole object as a file, streamed; verified. Leaves no partial file behind."""
        ...

    def stream(self, key: str, *, offset: int = 0, length: int | None = None) -> AsyncIterator[bytes]:
        """A range of the object in pieces of at most 1 MiB."""
        ...

    async def size(self, key: str) -> int | None:
        """Length in bytes, or None if there is no such object."""
        ...

    async def list(self, prefix: str) -> Sequence[str]:
        """All keys under a prefix, sorted."""
        ...

    async def remove(self, keys: Sequence[str]) -> None:
        """Remove objects; those that are not there do not matter."""
        ...

    def scan(self, prefix: str) -> AsyncIterator[ObjectEntry]:
        """All objects under a prefix, page by page: memory does not grow with them.

        Those under one folder come together. The order is the store's: by key, or (SeaweedFS) folder by folder. What is
        put or removed meanwhile may be among them or not.
        """
        ...

    async def copy(self, ref: ObjectRef, key: str) -> ObjectRef:
        """A copy under another key, made inside the store and verified by length; the first stays."""
        ...

    async def list_uploads(self) -> Sequence[UnfinishedUpload]:
        """Uploads that hold room in the store and are no object."""
        ...

    async def abort_upload(self, upload: UnfinishedUpload) -> None:
        """End one; its parts are removed. One that is gone does not matter."""
        ...

    async def sign(self, key: str, expires_s: int) -> str:
        """A URL for the public endpoint that lets anybody GET the object until it expires."""
        ...
