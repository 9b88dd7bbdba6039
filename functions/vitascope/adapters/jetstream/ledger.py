"""The ledger in a key-value bucket: one key a job, compare-and-set by the revision of its key."""

import hashlib
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime

import structlog
from nats.aio.msg import Msg
from pydantic import ValidationError

from vitascope.adapters.jetstream.api import (
    EXPECTED_REVISION,
    KV_OPERATION,
    MESSAGE_ID,
    MESSAGE_TTL,
    ROLLUP,
    StoredMessage,
    call,
    get_last,
    get_next,
    store,
)
from vitascope.adapters.jetstream.connection import Connection
from vitascope.adapters.jetstream.errors import WRONG_LAST_SEQUENCE, ApiError
from vitascope.adapters.jetstream.watch import Watch
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.jobs import JobRecord
from vitascope.contracts.subjects import BUCKET_IDEMPOTENCY, BUCKET_JOBS
from vitascope.contracts.transitions import check_successor
from vitascope.runtime.ports import MIN_HISTORY, Conflict, Stamped, UnreadableRecord

REMEMBER_TRIES = 3
"""A key that is taken and then gone has expired in between: at most once in its life."""
FORGOTTEN_S = 60
"""What is left of a forgotten record goes after so long: it must outlive a request that is sent again."""
_JOBS, _JOB_PREFIX = f"KV_{BUCKET_JOBS}", f"$KV.{BUCKET_JOBS}."

log = structlog.get_logger(__name__)


class JetStreamLedger:
    """See `runtime.ports.Ledger`. A read is one round trip to the stream's leader, a write is another."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def create(self, record: JobRecord) -> Stamped:
        """Store a new record."""
        return await self._store(record, 0)

    async def get(self, job: str) -> Stamped | None:
        """The newest record, or None."""
        message = await get_last(self._connection, _JOBS, f"{_JOB_PREFIX}{job}")
        if message is None or KV_OPERATION in message.headers:
            return None
        return _parse(job, message)

    async def replace(self, current: Stamped, record: JobRecord) -> Stamped:
        """Compare-and-set."""
        check_successor(current.record, record)
        return await self._store(record, current.revision)

    @asynccontextmanager
    async def _watch(self, job: str | None) -> AsyncIterator[AsyncIterator[Stamped | None]]:
        async with Watch(self._connection, _JOBS, f"{_JOB_PREFIX}{job or '>'}") as watch:
            yield _records(watch)

    def watch(self, job: str | None = None) -> AbstractAsyncContextManager[AsyncIterator[Stamped | None]]:
        """Follow the changes of all records or of one."""
        return self._watch(job)

    async def read_history(self, job: str, since: int) -> Sequence[Stamped]:
        """The record at revision `since` and at each later one; a round trip to the stream's leader for each."""
        found: list[Stamped] = []
        sequence = since
        for _ in range(MIN_HISTORY + 1):
            message = await get_next(self._connection, _JOBS, f"{_JOB_PREFIX}{job}", sequence)
            if message is None or (not found and message.sequence != since):
                break
            if KV_OPERATION in message.headers:
                return ()
            found.append(_parse(job, message))
            sequence = message.sequence + 1
        return found

    async def remember(self, tenant: str, key: str, value: bytes) -> bytes | None:
        """Create-only memory of idempotency keys; a key may hold anything, so its digest names it."""
        subject = _name_key(tenant, key)
        for _ in range(REMEMBER_TRIES):
            try:
                await compare_and_set(self._connection, subject, value, revision=0)
            except Conflict:
                known = await get_last(self._connection, f"KV_{BUCKET_IDEMPOTENCY}", subject)
                if known is not None:
                    return known.payload
            else:
                return None
        raise VitascopeError(FailureCode.BUS_UNAVAILABLE, "An idempotency key is neither free nor taken.")

    async def recall(self, tenant: str, key: str) -> bytes | None:
        """What is remembered under an idempotency key, if anything."""
        known = await get_last(self._connection, f"KV_{BUCKET_IDEMPOTENCY}", _name_key(tenant, key))
        return known.payload if known is not None else None

    async def forget(self, current: Stamped) -> None:
        """Take a record out for ever, with its history: one message replaces both, and goes by itself a minute later.

        Watchers see nothing of it. While that message is there `create` of the same id conflicts; later it does not,
        so ids must stay unique by the way they are made.
        """
        purge = {KV_OPERATION: "PURGE", ROLLUP: "sub", MESSAGE_TTL: f"{FORGOTTEN_S}s"}
        subject = f"{_JOB_PREFIX}{current.record.id}"
        await compare_and_set(self._connection, subject, b"", revision=current.revision, headers=purge)

    async def get_birth(self) -> datetime:
        """When the bucket was made, by the server's clock."""
        created = (await call(self._connection, f"STREAM.INFO.{_JOBS}"))["created"]
        return datetime.fromisoformat(created).astimezone(UTC)

    async def _store(self, record: JobRecord, revision: int) -> Stamped:
        subject = f"{_JOB_PREFIX}{record.id}"
        return Stamped(record, await compare_and_set(self._connection, subject, record.to_bytes(), revision=revision))


async def compare_and_set(
    connection: Connection,
    subject: str,
    value: bytes,
    *,
    revision: int,
    headers: dict[str, str] | None = None,
) -> int:
    """Store a value if its subject's newest message is still `revision`; 0 means that there is none.

    Each call has an id of its own. If the connection was lost meanwhile the write may have been sent twice, and the
    second have failed because the first had succeeded: then the newest message bears that id.

    Raises:
        Conflict: another message is the newest.
        VitascopeError: `bus_unavailable`.
    """
    own_id, epoch = connection.new_inbox(), connection.epoch
    guards = {EXPECTED_REVISION: str(revision), MESSAGE_ID: own_id}
    try:
        return await store(connection, subject, value, {**guards, **(headers or {})})
    except ApiError as error:
        if error.err_code not in WRONG_LAST_SEQUENCE:
            raise
        if connection.epoch != epoch:
            newest = await get_last(connection, f"KV_{subject.split('.')[1]}", subject)
            if newest is not None and newest.headers.get(MESSAGE_ID) == own_id:
                return newest.sequence
        raise Conflict(f"{subject} is no longer at revision {revision}") from error


def _name_key(tenant: str, key: str) -> str:
    return f"$KV.{BUCKET_IDEMPOTENCY}.{tenant}.{hashlib.sha256(key.encode()).hexdigest()}"


def _parse(job: str, message: StoredMessage) -> Stamped:
    try:
        return Stamped(JobRecord.from_bytes(message.payload), message.sequence)
    except ValidationError as error:
        raise UnreadableRecord(job) from error


async def _records(watch: Watch) -> AsyncIterator[Stamped | None]:
    async for message in watch:
        if message is None:
            yield None
        elif (stamped := _read(message)) is not None:
            yield stamped


def _read(message: Msg) -> Stamped | None:
    if KV_OPERATION in (message.headers or {}):
        return None
    sequence = message.metadata.sequence.stream
    try:
        return Stamped(JobRecord.from_bytes(message.data), sequence)
    except ValidationError:
        log.exception("ledger.unreadable_record", subject=message.subject, revision=sequence)
        return None
