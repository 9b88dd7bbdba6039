"""The ledger in memory."""

from collections import defaultdict, deque
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime

from vitascope.adapters.memory.feed import Feed
from vitascope.adapters.memory.state import BrokerState
from vitascope.contracts.jobs import JobRecord
from vitascope.contracts.transitions import check_successor
from vitascope.runtime.ports import MIN_HISTORY, Conflict, Stamped


class MemoryLedger:
    """Records under compare-and-set; see `runtime.ports.Ledger`."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._feed: Feed[Stamped] = Feed()
        self._history: dict[str, deque[Stamped]] = defaultdict(lambda: deque(maxlen=MIN_HISTORY))
        self._revision = 0
        self._remembered: dict[tuple[str, str], bytes] = {}
        self._birth = state.timing.now()

    async def create(self, record: JobRecord) -> Stamped:
        """Store a new record."""
        self._state.check()
        if record.id in self._feed.values:
            raise Conflict(f"there is a job {record.id} already")
        return self._store(record)

    async def get(self, job: str) -> Stamped | None:
        """The newest record, or None."""
        self._state.check()
        return self._feed.values.get(job)

    async def replace(self, current: Stamped, record: JobRecord) -> Stamped:
        """Compare-and-set."""
        check_successor(current.record, record)
        self._state.check()
        self._expect(current)
        return self._store(record)

    def watch(self, job: str | None = None) -> AbstractAsyncContextManager[AsyncIterator[Stamped | None]]:
        """Follow the changes of all records or of one."""
        self._state.check()
        return self._feed.watch(lambda key, _: job is None or key == job)

    async def read_history(self, job: str, since: int) -> Sequence[Stamped]:
        """The record at revision `since` and at each later one."""
        self._state.check()
        if job not in self._feed.values:
            return ()
        kept = [stamped for stamped in self._history[job] if stamped.revision >= since]
        return kept if kept and kept[0].revision == since else ()

    async def remember(self, tenant: str, key: str, value: bytes) -> bytes | None:
        """Create-only memory of idempotency keys."""
        self._state.check()
        known = self._remembered.get((tenant, key))
        if known is None:
            self._remembered[tenant, key] = value
        return known

    async def recall(self, tenant: str, key: str) -> bytes | None:
        """What is remembered under an idempotency key, if anything."""
        self._state.check()
        return self._remembered.get((tenant, key))

    async def forget(self, current: Stamped) -> None:
        """Take a record out for ever; nobody is told."""
        self._state.check()
        self._expect(current)
        self._feed.forget(current.record.id)
        self._history.pop(current.record.id, None)

    async def get_birth(self) -> datetime:
        """When the broker was made, or lost all that it held."""
        self._state.check()
        return self._birth

    def lose(self) -> None:
        """Begin anew, empty; revisions go on rising."""
        self._feed.values.clear()
        self._history.clear()
        self._remembered.clear()
        self._birth = self._state.timing.now()

    def _expect(self, current: Stamped) -> None:
        held = self._feed.values.get(current.record.id)
        if held is None or held.revision != current.revision:
            raise Conflict(f"the record of {current.record.id} is no longer at revision {current.revision}")

    def _store(self, record: JobRecord) -> Stamped:
        self._revision += 1
        stamped = Stamped(JobRecord.from_bytes(record.to_bytes()), self._revision)
        self._history[record.id].append(stamped)
        self._feed.put(record.id, stamped)
        return stamped
