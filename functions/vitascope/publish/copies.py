"""Copies of ended jobs' records in the object store, from which a lost ledger is rebuilt."""

from vitascope.contracts.objects import record_key
from vitascope.runtime.ports import ObjectStore, Stamped


class Copier:
    """Replaces the copy that was stored at acceptance once the job has ended."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    async def handle(self, stamped: Stamped) -> None:
        """Store the record of an ended job; a second time changes nothing."""
        if stamped.record.is_terminal:
            await self._store.put(record_key(stamped.record), stamped.record.to_bytes(), "application/json")
