"""The tenants: documents under compare-and-set in a bucket, each with a copy in the object store.

The copy is written before the bucket, so that nothing that was answered is lost with the bucket. A bucket that was made
anew is filled from the copies before anybody concludes something from what is not in it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

import structlog
from pydantic import ValidationError

from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.objects import TENANTS_PREFIX, tenant_key
from vitascope.contracts.tenants import DEFAULT_TENANT, Tenant
from vitascope.runtime.ports import Clock, Conflict, ObjectStore

CHANGE_TRIES = 16
"""More writers of one document within as many round trips do not happen: people change tenants, not programs."""

Change = Callable[[Tenant], Tenant]
"""What is to become of a document. Pure: it may be called again with a newer one. It may raise to change nothing."""
log = structlog.get_logger(__name__)


class TenantBook(Protocol):
    """What all processes know of tenants: read one, change one, follow all."""

    async def get(self, name: str) -> Tenant | None:
        """The newest document, or None if there is no such tenant; `DEFAULT_TENANT` always is."""
        ...

    async def create(self, tenant: Tenant) -> Tenant:
        """Add a tenant. Raises `already_exists`."""
        ...

    async def change(self, name: str, change: Change) -> Tenant:
        """Read, change, compare-and-set, again if somebody else was faster; gives the document as it is now.

        Raises:
            VitascopeError: `not_found`, there is no such tenant; whatever `change` raises, and then nothing changed;
                `bus_unavailable`, `store_unavailable`, and then it may have changed or not.
        """
        ...

    def watch(self) -> AbstractAsyncContextManager[AsyncIterator["StampedTenant | None"]]:
        """First every document, then None once, then every change; as `Ledger.watch`. Tenants are never removed."""
        ...

    async def get_revision(self) -> int:
        """The revision of the newest change of any tenant: who has seen it by `watch` has seen all; 0 if none is."""
        ...

    async def restore(self) -> int:
        """Fill a bucket that was made anew from the copies; what is there stays. How many were missing.

        Raises:
            VitascopeError: the bucket or the store cannot be reached. What was done stays done; call it again.
        """
        ...


@dataclass(frozen=True)
class StampedTenant:
    """A document as the bucket holds it; `revision` rises with every change of any document."""

    tenant: Tenant
    revision: int


class TenantTable(Protocol):
    """The bucket: the port that `adapters` implement."""

    async def create(self, tenant: Tenant) -> StampedTenant:
        """Store a new document. Raises `Conflict` if the name is taken."""
        ...

    async def get(self, name: str) -> StampedTenant | None:
        """The newest document, or None."""
        ...

    async def replace(self, current: StampedTenant, tenant: Tenant) -> StampedTenant:
        """Store it if the bucket still holds `current`. Raises `Conflict` if not."""
        ...

    def watch(self) -> AbstractAsyncContextManager[AsyncIterator[StampedTenant | None]]:
        """As `TenantBook.watch`."""
        ...

    async def get_revision(self) -> int:
        """As `TenantBook.get_revision`."""
        ...

    async def get_birth(self) -> datetime:
        """When this bucket was made."""
        ...


class KeptTenants:
    """The `TenantBook` over a bucket and the copies in an object store."""

    def __init__(self, table: TenantTable, store: ObjectStore, clock: Clock) -> None:
        self._table, self._store, self._clock = table, store, clock
        self._whole: datetime | None = None  # the birth of the bucket that has every tenant
        self._changing = asyncio.Lock()  # those of one process need not race each other

    async def get(self, name: str) -> Tenant | None:
        """The newest document, or None."""
        current = await self._find(name)
        if current is not None:
            return current.tenant
        return self._make_default() if name == DEFAULT_TENANT else None

    async def create(self, tenant: Tenant) -> Tenant:
        """Add a tenant."""
        if tenant.name == DEFAULT_TENANT or await self._find(tenant.name) is not None:
            raise _make_taken(tenant.name)
        await self._put_copy(tenant)
        try:
            return (await self._table.create(tenant)).tenant
        except Conflict as error:
            await self._mend_copy(tenant.name)
            raise _make_taken(tenant.name) from error

    async def change(self, name: str, change: Change) -> Tenant:
        """Read, change, compare-and-set, again if somebody else was faster."""
        async with self._changing:
            return await self._change(name, change)

    async def _change(self, name: str, change: Change) -> Tenant:
        for _ in range(CHANGE_TRIES):
            current = await self._find(name)
            if current is None and name != DEFAULT_TENANT:
                raise VitascopeError(FailureCode.NOT_FOUND, "There is no such tenant.")
            before = self._make_default() if current is None else current.tenant
            after = change(before)
            assert after.name == name, "a tenant keeps its name"
            if current is not None and after == before:
                return before
            await self._put_copy(after)
            try:
                done = await (self._table.create(after) if current is None else self._table.replace(current, after))
            except Conflict:
                await self._mend_copy(name)
            else:
                return done.tenant
        raise VitascopeError(FailureCode.SERVICE_UNAVAILABLE, f"The tenant {name} is being changed too fast.")

    def watch(self) -> AbstractAsyncContextManager[AsyncIterator[StampedTenant | None]]:
        """Every document, None, then every change."""
        return self._table.watch()

    async def get_revision(self) -> int:
        """The revision of the newest change."""
        return await self._table.get_revision()

    async def restore(self) -> int:
        """Fill a bucket that was made anew from the copies."""
        birth, restored = await self._table.get_birth(), 0
        if birth == self._whole:
            return 0
        async for entry in self._store.scan(TENANTS_PREFIX):
            copy = await self._load_copy(entry.key)
            if copy is None or await self._table.get(copy.name) is not None:
                continue
            try:
                await self._table.create(copy)
            except Conflict:  # another replica does the same
                continue
            restored += 1
        if restored:
            log.warning("tenants were restored from their copies", tenants=restored, birth=birth.isoformat())
        self._whole = birth
        return restored

    async def _find(self, name: str) -> StampedTenant | None:
        """The document; that there is none is only said by a bucket that has every tenant."""
        current = await self._table.get(name)
        if current is None and await self.restore():
            current = await self._table.get(name)
        return current

    def _make_default(self) -> Tenant:
        return Tenant(name=DEFAULT_TENANT, created=self._clock.now())

    async def _put_copy(self, tenant: Tenant) -> None:
        await self._store.put(tenant_key(tenant.name), tenant.to_bytes(), "application/json")

    async def _mend_copy(self, name: str) -> None:
        """Our copy is of a change that did not come to be: have it say again what the bucket says.

        The store knows no compare-and-set, so whoever has written looks afterwards whether the bucket has moved on.
        """
        written: StampedTenant | None = None
        for _ in range(CHANGE_TRIES):
            current = await self._table.get(name)
            if current is None or (written is not None and current.revision == written.revision):
                return
            await self._put_copy(current.tenant)
            written = current

    async def _load_copy(self, key: str) -> Tenant | None:
        try:
            copy = Tenant.from_bytes(await self._store.get(key))
        except ValidationError:
            log.exception("copy of a tenant cannot be read", key=key)
            return None
        except VitascopeError as error:
            if error.code is not FailureCode.OBJECT_MISSING:
                raise
            return None
        if tenant_key(copy.name) != key:
            log.error("copy of a tenant has another's name", key=key, tenant=copy.name)
            return None
        return copy


def _make_taken(name: str) -> VitascopeError:
    return VitascopeError(FailureCode.ALREADY_EXISTS, f"There is a tenant {name}.", param="name")
