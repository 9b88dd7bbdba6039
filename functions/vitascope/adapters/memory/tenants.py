"""The bucket of tenants in memory."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from datetime import datetime

from vitascope.adapters.memory.feed import Feed
from vitascope.adapters.memory.state import BrokerState
from vitascope.contracts.tenants import Tenant
from vitascope.runtime.ports import Conflict
from vitascope.runtime.tenants import StampedTenant


class MemoryTenantTable:
    """Documents under compare-and-set; see `runtime.tenants.TenantTable`."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._feed: Feed[StampedTenant] = Feed()
        self._revision = 0
        self._birth = state.timing.now()

    async def create(self, tenant: Tenant) -> StampedTenant:
        """Store a new document."""
        self._state.check()
        if tenant.name in self._feed.values:
            raise Conflict(f"there is a tenant {tenant.name} already")
        return self._store(tenant)

    async def get(self, name: str) -> StampedTenant | None:
        """The newest document, or None."""
        self._state.check()
        return self._feed.values.get(name)

    async def replace(self, current: StampedTenant, tenant: Tenant) -> StampedTenant:
        """Compare-and-set."""
        self._state.check()
        held = self._feed.values.get(tenant.name)
        if held is None or held.revision != current.revision:
            raise Conflict(f"the tenant {tenant.name} is no longer at revision {current.revision}")
        return self._store(tenant)

    def watch(self) -> AbstractAsyncContextManager[AsyncIterator[StampedTenant | None]]:
        """Every document, None, then every change."""
        self._state.check()
        return self._feed.watch(lambda _name, _stamped: True)

    async def get_revision(self) -> int:
        """The revision of the newest change; 0 if the table is empty."""
        self._state.check()
        return self._revision if self._feed.values else 0

    async def get_birth(self) -> datetime:
        """When the broker was made, or lost all that it held."""
        self._state.check()
        return self._birth

    def lose(self) -> None:
        """Begin anew, empty; revisions go on rising."""
        self._feed.values.clear()
        self._birth = self._state.timing.now()

    def _store(self, tenant: Tenant) -> StampedTenant:
        self._revision += 1
        stamped = StampedTenant(Tenant.from_bytes(tenant.to_bytes()), self._revision)
        self._feed.put(tenant.name, stamped)
        return stamped
