"""Now, and since when there is this ledger: what whoever judges the old by their age must know.

A ledger can be lost. Its successor is empty until it has been rebuilt from the copies of the records, and says of every
job that there is none. So the absence of a record proves nothing by itself: see `orphans`.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.objects import publish_mark_key
from vitascope.runtime.completeness import Completeness
from vitascope.runtime.ports import Clock, Ledger, ObjectStore

GRACE = timedelta(hours=1)
"""What is younger is left alone, whatever it is: it may be about to be recorded."""
SKEW = timedelta(hours=1)
"""Clocks of processes and servers differ by less than this."""
MARK_KEY = publish_mark_key("janitor")


@dataclass(frozen=True)
class Epoch:
    """The time by which things are judged, and the ledger that is asked about them.

    Attributes:
        now: UTC.
        birth: when the ledger was made.
        is_complete: whether it holds every accepted job; not so from its birth until it is rebuilt.
    """

    now: datetime
    birth: datetime
    is_complete: bool

    def is_old(self, made: datetime, age: timedelta = GRACE) -> bool:
        """Whether something that was made then has that age."""
        return self.now - made >= age

    def is_ours(self, made: datetime) -> bool:
        """Whether something was certainly made under this ledger, and not under a lost one."""
        return made > self.birth + SKEW


async def read_epoch(ledger: Ledger, store: ObjectStore, clock: Clock) -> Epoch:
    """The epoch by our clock; nothing is changed.

    Raises:
        VitascopeError: the ledger or the store cannot be reached.
    """
    birth, mark = await ledger.get_birth(), await Completeness(ledger, store).load_mark()
    return Epoch(clock.now(), birth, is_complete=mark is not None and mark.birth == birth)


async def read_sure_epoch(ledger: Ledger, store: ObjectStore, clock: Clock) -> Epoch:
    """The epoch by two clocks, ours and the store's: it is as late as both say.

    So no clock that has jumped ahead makes things old by itself. The store's is read off a mark that is put now.

    Raises:
        VitascopeError: as `read_epoch`.
    """
    epoch = await read_epoch(ledger, store, clock)
    await store.put(MARK_KEY, b"{}", "application/json")
    async for entry in store.scan(MARK_KEY):
        if entry.key == MARK_KEY:
            return replace(epoch, now=min(epoch.now, entry.modified))
    raise VitascopeError(FailureCode.STORE_UNAVAILABLE, "The store does not list what was just put into it.")
