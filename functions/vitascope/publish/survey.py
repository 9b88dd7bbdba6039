"""A look at a running service for whoever looks after it: what the janitor would remove, and jobs that stand still.

Nothing is changed, and nothing is said of what is merely on its way: events are looked at twice.
"""

import asyncio
from collections.abc import AsyncIterator

from vitascope.contracts.flow import STAGE_OF
from vitascope.contracts.frozen import Frozen
from vitascope.contracts.subjects import subject_of_work
from vitascope.publish.epoch import read_epoch
from vitascope.publish.orphans import Orphan, OrphanFinder, OrphanKind
from vitascope.runtime.ports import Bus, Clock, Ledger, ObjectStore

NAMED = 10
"""Of each kind so many are named, the rest is counted."""
PAUSE_S = 2.0
"""Between the two looks at the events: a stage settles its event well within that."""


class Findings(Frozen):
    """What was found of one kind: how much, the room it takes in the store, and the first of it by name."""

    kind: str
    count: int = 0
    bytes: int = 0
    names: tuple[str, ...] = ()

    def plus(self, name: str, size_bytes: int = 0) -> "Findings":
        """With one more."""
        names = (*self.names, name) if len(self.names) < NAMED else self.names
        return Findings(kind=self.kind, count=self.count + 1, bytes=self.bytes + size_bytes, names=names)


class Survey(Frozen):
    """Orphans by kind, and live jobs whose stage has no event; `is_complete` is false while a ledger is rebuilt."""

    orphans: tuple[Findings, ...]
    stalled: Findings
    is_complete: bool


async def survey(ledger: Ledger, bus: Bus, store: ObjectStore, clock: Clock) -> Survey:
    """Look at everything once, and at the events twice.

    Raises:
        VitascopeError: a server cannot be reached.
    """
    finder = OrphanFinder(ledger, bus, store)
    work, stalled = await finder.list_work(), await _find_stalled(ledger, bus)
    epoch = await read_epoch(ledger, store, clock)
    objects = await _sum_up(OrphanKind.OBJECT, finder.find_objects(epoch))
    copies = await _sum_up(OrphanKind.COPY, finder.find_copies(epoch))
    uploads = Findings(kind=OrphanKind.UPLOAD)
    for orphan in await finder.list_uploads(epoch):
        uploads = uploads.plus(orphan.name)
    await asyncio.sleep(PAUSE_S)
    still_useless = {orphan.name for orphan in await finder.list_work()}
    still_stalled = await _find_stalled(ledger, bus)
    events = Findings(kind=OrphanKind.WORK)
    for orphan in work:
        events = events.plus(orphan.name) if orphan.name in still_useless else events
    jobs = Findings(kind="job without an event")
    for subject in sorted(stalled & still_stalled):
        jobs = jobs.plus(subject)
    return Survey(orphans=(objects, copies, uploads, events), stalled=jobs, is_complete=epoch.is_complete)


async def _sum_up(kind: OrphanKind, batches: AsyncIterator[list[Orphan]]) -> Findings:
    findings = Findings(kind=kind)
    async for orphans in batches:
        for orphan in orphans:
            findings = findings.plus(orphan.name, orphan.bytes)
    return findings


async def _find_stalled(ledger: Ledger, bus: Bus) -> set[str]:
    """Subjects of the events that should be there and are not."""
    wanted: set[str] = set()
    async with ledger.watch() as changes:
        async for stamped in changes:
            if stamped is None:
                break
            if stage := STAGE_OF.get(stamped.record.state):
                wanted.add(subject_of_work(stamped.record, stage))
    return wanted - set(await bus.list_work())
