"""What an ended job no longer needs is removed from the store, whoever was to do it and did not come to it."""

from vitascope.contracts.flow import State
from vitascope.contracts.jobs import JobRecord
from vitascope.contracts.objects import ObjectClass, job_prefix
from vitascope.runtime.leftovers import MADE_BY_STAGES, list_referenced, remove_objects
from vitascope.runtime.ports import ObjectStore, Stamped

ON_THE_WAY = (ObjectClass.CHECKPOINTS, ObjectClass.LATENTS, ObjectClass.FRAMES)


class Sweeper:
    """Stages clean up after themselves; this is for a job that ended while nobody worked on it, or whose stage died.

    A failed job keeps what it has until the store's rules expire it: the latents are GPU time that was paid for.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    async def handle(self, stamped: Stamped) -> None:
        """Remove what is left of an ended job; a second time changes nothing."""
        if prefixes := plan_sweep(stamped.record):
            keep = list_referenced(stamped.record) - _served(stamped.record)
            await remove_objects(self._store, prefixes, keep=keep)


def plan_sweep(record: JobRecord) -> list[str]:
    """Prefixes under which an ended job has nothing to keep but its result."""
    if record.state is State.CANCELLED:
        return [job_prefix(kind, record) for kind in MADE_BY_STAGES]
    if record.state is State.SUCCEEDED:
        return [job_prefix(kind, record) for kind in ON_THE_WAY]
    return []


def _served(record: JobRecord) -> frozenset[str]:
    """Keys that a succeeded record still names though they have served."""
    return frozenset({record.run.latents.key} if record.run.latents else ()) | frozenset(
        {record.run.checkpoint.object.key} if record.run.checkpoint else ()
    )
