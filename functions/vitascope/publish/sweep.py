"""What an ended job no longer needs is removed from the store, whoever was to do it and did not come to it."""

from vitascope.contracts.jobs import JobRecord
from vitascope.contracts.objects import ObjectClass, job_prefix
from vitascope.publish.needs import is_needed
from vitascope.runtime.leftovers import MADE_BY_STAGES
from vitascope.runtime.ports import ObjectStore, Stamped

SWEPT = (ObjectClass.INPUTS, *MADE_BY_STAGES)
"""Everything that a job may have in the store, but for the copy of its record."""


class Sweeper:
    """Stages clean up after themselves; this is for a job that ended while nobody worked on it, or whose stage died.

    It sees the end of every job, and later its expiry: the record says `expired` first, then the files go.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    async def handle(self, stamped: Stamped) -> None:
        """Remove what is left of an ended job; a second time changes nothing."""
        if stamped.record.is_terminal:
            await sweep(self._store, stamped.record)


async def sweep(store: ObjectStore, record: JobRecord) -> None:
    """Remove the objects that an ended job does not need.

    Raises:
        VitascopeError: the store cannot be reached.
    """
    assert record.is_terminal, "a live job's stages are at work under these keys"
    found = [key for kind in SWEPT for key in await store.list(job_prefix(kind, record))]
    if unneeded := [key for key in found if not is_needed(record, key)]:
        await store.remove(unneeded)
