"""The tenants in a key-value bucket: one key a tenant, compare-and-set by the revision of its key."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime

import structlog
from nats.aio.msg import Msg
from pydantic import ValidationError

from vitascope.adapters.jetstream.api import call, get_last
from vitascope.adapters.jetstream.connection import Connection
from vitascope.adapters.jetstream.ledger import compare_and_set
from vitascope.adapters.jetstream.watch import Watch
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.subjects import BUCKET_TENANTS
from vitascope.contracts.tenants import Tenant
from vitascope.runtime.tenants import StampedTenant

_STREAM, _PREFIX = f"KV_{BUCKET_TENANTS}", f"$KV.{BUCKET_TENANTS}."

log = structlog.get_logger(__name__)


class JetStreamTenantTable:
    """See `runtime.tenants.TenantTable`. Nothing is ever deleted here, so the newest message is always a document."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def create(self, tenant: Tenant) -> StampedTenant:
        """Store a new document."""
        return await self._store(tenant, 0)

    async def get(self, name: str) -> StampedTenant | None:
        """The newest document, or None."""
        message = await get_last(self._connection, _STREAM, f"{_PREFIX}{name}")
        if message is None:
            return None
        try:
            return StampedTenant(Tenant.from_bytes(message.payload), message.sequence)
        except ValidationError as error:
            raise VitascopeError(FailureCode.INTERNAL_ERROR, f"The tenant {name} cannot be read.") from error

    async def replace(self, current: StampedTenant, tenant: Tenant) -> StampedTenant:
        """Compare-and-set."""
        return await self._store(tenant, current.revision)

    def watch(self) -> AbstractAsyncContextManager[AsyncIterator[StampedTenant | None]]:
        """Every document, None, then every change."""
        return self._watch()

    @asynccontextmanager
    async def _watch(self) -> AsyncIterator[AsyncIterator[StampedTenant | None]]:
        async with Watch(self._connection, _STREAM, f"{_PREFIX}>") as watch:
            yield _documents(watch)

    async def get_revision(self) -> int:
        """The revision of the newest change; 0 if the bucket is empty."""
        state = (await call(self._connection, f"STREAM.INFO.{_STREAM}"))["state"]
        return int(state["last_seq"]) if state["messages"] else 0

    async def get_birth(self) -> datetime:
        """When the bucket was made, by the server's clock."""
        created = (await call(self._connection, f"STREAM.INFO.{_STREAM}"))["created"]
        return datetime.fromisoformat(created).astimezone(UTC)

    async def _store(self, tenant: Tenant, revision: int) -> StampedTenant:
        subject = f"{_PREFIX}{tenant.name}"
        stored = await compare_and_set(self._connection, subject, tenant.to_bytes(), revision=revision)
        return StampedTenant(tenant, stored)


async def _documents(watch: Watch) -> AsyncIterator[StampedTenant | None]:
    async for message in watch:
        if message is None:
            yield None
        elif (stamped := _read(message)) is not None:
            yield stamped


def _read(message: Msg) -> StampedTenant | None:
    sequence = message.metadata.sequence.stream
    try:
        return StampedTenant(Tenant.from_bytes(message.data), sequence)
    except ValidationError:
        log.exception("tenants.unreadable_document", subject=message.subject, revision=sequence)
        return None
