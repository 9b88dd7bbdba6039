"""Copies of records in the object store, from which a lost ledger is rebuilt.

The ledger is the truth, and a copy follows it. The store knows no compare-and-set, so of several writers an older one
may come last. Therefore whoever has written looks at the ledger afterwards, and writes again if the record has moved on
meanwhile: the last of all writers looks after the last write, so the copy that stays is the newest. It is older only
for the moment between a write and the look that follows.

What an older copy points to is removed only after a newer copy is stored (`keep_copy` first, then remove), or a ledger
that is lost in between would be rebuilt into a job that lacks its checkpoint or its latents.

A write that its writer gave up may reach the store minutes later, when nobody looks any more (a network that was cut
delivers what it held). So the copy of an ended record has a key of its own, which no copy of a live one can overwrite.
A live copy that is older than it should be costs a rebuild steps, and nothing else.
"""

from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.flow import State
from vitascope.contracts.jobs import JobRecord
from vitascope.contracts.objects import record_key, record_keys
from vitascope.runtime.ports import Ledger, ObjectStore

CONTENT_TYPE = "application/json"
KEEP_TRIES = 16
"""More changes than this within as many writes of one copy do not happen: a job has few that matter."""

CopyMark = tuple[State, int, str | None, str | None]


def compute_mark(record: JobRecord) -> CopyMark:
    """What a copy must have right: state, attempt, checkpoint and latents. All else costs nothing when it is old."""
    run = record.run
    checkpoint = run.checkpoint.object.key if run.checkpoint else None
    return run.state, run.attempt, checkpoint, run.latents.key if run.latents else None


async def put_copy(store: ObjectStore, record: JobRecord) -> None:
    """Store a copy, whatever the ledger says.

    Raises:
        VitascopeError: the store did not take it.
    """
    await store.put(record_key(record), record.to_bytes(), CONTENT_TYPE)


async def keep_copy(ledger: Ledger, store: ObjectStore, record: JobRecord) -> None:
    """Have the copy say at least what this record of the ledger says, and nothing older than the ledger.

    An expired record that the ledger no longer has was forgotten, its copy first: the one just written goes, too. Any
    other that it has not is of a lost ledger, and the copy is all that is left of the job.

    Raises:
        VitascopeError: the store or the ledger cannot be reached; call it again.
    """
    for _ in range(KEEP_TRIES):
        await put_copy(store, record)
        current = await ledger.get(record.id)
        if current is None:
            if record.state is State.EXPIRED:
                await store.remove(record_keys(record))
            return
        if compute_mark(current.record) == compute_mark(record):
            return
        record = current.record
    raise VitascopeError(FailureCode.SERVICE_UNAVAILABLE, f"The record of {record.id} is being changed too fast.")
