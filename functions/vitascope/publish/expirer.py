"""Ends what has been kept for long enough: jobs expire, and expired ones are forgotten.

The record says `expired` before any file goes, and its copy goes before the record does: wherever this dies, nothing is
promised that is not there, and what is left is found again.
"""

from dataclasses import dataclass, field
from datetime import datetime

import structlog

from vitascope.contracts import transitions
from vitascope.contracts.expiry import Retention, compute_expiry, compute_forgetting
from vitascope.contracts.flow import State
from vitascope.contracts.objects import record_keys
from vitascope.publish.sweep import sweep
from vitascope.runtime.ports import Conflict, Ledger, ObjectStore, Stamped

PAGE = 1000
"""Records that are kept in memory between finding and ending them."""

log = structlog.get_logger(__name__)


@dataclass
class Due:
    """What a walk over the ledger found: ended jobs to expire, expired ones to forget, and the ids of live ones."""

    to_expire: list[Stamped] = field(default_factory=list)
    to_forget: list[Stamped] = field(default_factory=list)
    live: list[str] = field(default_factory=list)

    @property
    def is_full(self) -> bool:
        """Whether the walk ended early, since there was enough to do."""
        return len(self.to_expire) + len(self.to_forget) >= PAGE


class Expirer:
    """Finds what is due, and ends it one by one."""

    def __init__(self, ledger: Ledger, store: ObjectStore, retention: Retention) -> None:
        self._ledger, self._store, self._retention = ledger, store, retention

    async def find_due(self, now: datetime) -> Due:
        """All that is due at that moment, up to a page of it."""
        due = Due()
        async with self._ledger.watch() as changes:
            async for stamped in changes:
                if stamped is None or due.is_full:
                    break
                self._sort(due, stamped, now)
        return due

    async def expire(self, stamped: Stamped, now: datetime) -> bool:
        """The record becomes `expired`; whoever follows the ledger removes the files. False if it has changed."""
        try:
            await self._ledger.replace(stamped, transitions.expire(stamped.record, now))
        except Conflict:
            return False
        log.info("job expired", job=stamped.record.id, stage="publish", attempt=stamped.record.run.attempt)
        return True

    async def forget(self, stamped: Stamped) -> bool:
        """Whatever files are left, then the copies, then the record. False if it has changed."""
        await sweep(self._store, stamped.record)
        await self._store.remove(record_keys(stamped.record))
        try:
            await self._ledger.forget(stamped)
        except Conflict:
            return False
        log.info("job forgotten", job=stamped.record.id, stage="publish", attempt=stamped.record.run.attempt)
        return True

    def _sort(self, due: Due, stamped: Stamped, now: datetime) -> None:
        record = stamped.record
        if not record.is_terminal:
            due.live.append(record.id)
        elif record.state is State.EXPIRED:
            if _is_past(compute_forgetting(record, self._retention), now):
                due.to_forget.append(stamped)
        elif _is_past(compute_expiry(record, self._retention), now):
            due.to_expire.append(stamped)


def _is_past(moment: datetime | None, now: datetime) -> bool:
    return moment is not None and moment <= now
