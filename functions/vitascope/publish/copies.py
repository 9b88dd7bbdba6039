"""Copies of records follow the ledger: at every change of state, attempt, checkpoint or latents, and at the end."""

import asyncio
from collections import OrderedDict

from vitascope.contracts.jobs import JobRecord
from vitascope.publish.follow import ChangeHandler
from vitascope.runtime.copies import CopyMark, compute_mark, keep_copy
from vitascope.runtime.ports import Ledger, ObjectStore, Stamped

MAX_KEPT = 10_000
"""Jobs of which it is remembered what their copy says; of any other the copy is written once more."""


class Copier:
    """Keeps the copies current. Two at once do no harm; see `runtime.copies`."""

    def __init__(self, ledger: Ledger, store: ObjectStore) -> None:
        self._ledger, self._store = ledger, store
        self._kept: OrderedDict[str, tuple[int, CopyMark]] = OrderedDict()
        self._under_way: dict[str, asyncio.Event] = {}

    async def handle(self, stamped: Stamped) -> None:
        """Have the copy say what the record says; what is in the store already is not written again.

        The copy of a job that has just been accepted is there: the record was created after it. Several followers may
        ask for one job at a time: one writes, the others wait for it.
        """
        record, mark = stamped.record, compute_mark(stamped.record)
        while (written := self._under_way.get(record.id)) is not None:
            await written.wait()
        revision, kept = self._kept.get(record.id, (0, None))
        if stamped.revision <= revision or mark == kept:
            return
        written = self._under_way[record.id] = asyncio.Event()
        try:
            if not _is_new(record):
                await keep_copy(self._ledger, self._store, record)
            self._note(record.id, stamped.revision, mark)
        finally:
            del self._under_way[record.id]
            written.set()

    def _note(self, job: str, revision: int, mark: CopyMark) -> None:
        self._kept[job] = revision, mark
        self._kept.move_to_end(job)
        if len(self._kept) > MAX_KEPT:
            self._kept.popitem(last=False)


class AfterCopy:
    """Hands changes on once their copies are stored: for a handler that removes what an older copy may point to."""

    def __init__(self, copies: ChangeHandler, handler: ChangeHandler) -> None:
        self._copies, self._handler = copies, handler

    async def handle(self, stamped: Stamped) -> None:
        """Copy, then hand on."""
        await self._copies.handle(stamped)
        await self._handler.handle(stamped)


def _is_new(record: JobRecord) -> bool:
    return record.run.attempt == 0 and not record.is_terminal
