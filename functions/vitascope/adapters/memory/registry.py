"""The registry in memory."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

from vitascope.adapters.memory.feed import Feed
from vitascope.adapters.memory.state import BrokerState
from vitascope.contracts.pools import LEASE_S, GroupRow
from vitascope.contracts.subjects import group_key


@dataclass(frozen=True)
class _Lease:
    holder: str
    until_s: float


class MemoryRegistry:
    """Rows of groups, and leases; see `runtime.ports.Registry`."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._feed: Feed[GroupRow | str] = Feed()
        self._until_s: dict[str, float] = {}
        self._leases: dict[str, _Lease] = {}

    async def put_group(self, row: GroupRow) -> None:
        """Renew a group's row."""
        self._state.check()
        key = group_key(row.pool, row.group)
        self._until_s[key] = self._state.timing.now_s() + LEASE_S
        self._feed.put(key, GroupRow.model_validate_json(row.model_dump_json()))

    async def remove_group(self, row: GroupRow) -> None:
        """Take the row away, unless another holder has put one since."""
        self._state.check()
        key = group_key(row.pool, row.group)
        held = self._feed.values.get(key)
        if isinstance(held, GroupRow) and held.holder == row.holder:
            del self._feed.values[key]
            self._feed.tell(key, key)

    async def get_groups(self) -> Sequence[GroupRow]:
        """All rows that are there, in the order of their names."""
        self._state.check()
        self._forget_old()
        return [row for _, row in sorted(self._feed.values.items()) if isinstance(row, GroupRow)]

    def watch_groups(self) -> AbstractAsyncContextManager[AsyncIterator[GroupRow | str | None]]:
        """All rows, None, then each change."""
        return self._watch_groups()

    @asynccontextmanager
    async def _watch_groups(self) -> AsyncIterator[AsyncIterator[GroupRow | str | None]]:
        self._state.check()
        self._forget_old()
        async with self._feed.watch(lambda _key, _row: True) as news:
            yield news

    async def acquire_lease(self, name: str, holder: str, ttl_s: float) -> bool:
        """Take or renew a lease."""
        self._state.check()
        now_s = self._state.timing.now_s()
        held = self._leases.get(name)
        if held is not None and held.holder != holder and now_s < held.until_s:
            return False
        self._leases[name] = _Lease(holder, now_s + ttl_s)
        return True

    async def release_lease(self, name: str, holder: str) -> None:
        """Give a lease back, if this holder has it."""
        self._state.check()
        held = self._leases.get(name)
        if held is not None and held.holder == holder:
            del self._leases[name]

    def lose(self) -> None:
        """Lose all rows and leases."""
        self._feed.values.clear()
        self._until_s.clear()
        self._leases.clear()

    def _forget_old(self) -> None:
        now_s = self._state.timing.now_s()
        for key in [key for key, until_s in self._until_s.items() if until_s <= now_s]:
            del self._until_s[key]
            self._feed.values.pop(key, None)
