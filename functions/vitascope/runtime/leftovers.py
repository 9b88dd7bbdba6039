"""What a run that ended early leaves in the store, and taking it away."""

from collections.abc import Collection, Iterable

import structlog

from vitascope.contracts.events import WorkItem
from vitascope.contracts.failures import VitascopeError
from vitascope.contracts.flow import State
from vitascope.contracts.jobs import JobRecord
from vitascope.contracts.objects import ObjectClass, attempt_prefix, job_prefix
from vitascope.runtime.copies import keep_copy
from vitascope.runtime.ports import Ledger, ObjectStore

MADE_BY_STAGES = (ObjectClass.CHECKPOINTS, ObjectClass.LATENTS, ObjectClass.FRAMES, ObjectClass.OUTPUTS)
UNWANTED = frozenset({State.CANCELLED, State.WITHHELD})
"""States after which nothing that stages made may be left."""

log = structlog.get_logger(__name__)


async def remove_leftovers(
    ledger: Ledger,
    store: ObjectStore,
    work: WorkItem,
    kinds: Collection[ObjectClass],
) -> None:
    """After a stale run: remove what nobody will ask for again. Best effort, and harmless when repeated.

    Args:
        ledger: the ledger.
        store: the store.
        work: the work that turned out to be stale.
        kinds: the classes of objects that its stage makes.
    """
    try:
        current = await ledger.get(work.job)
        if current is not None:
            prefixes = plan_removal(current.record, work.attempt, kinds)
            await keep_copy(ledger, store, current.record)  # an older one may point to what is removed now
            await remove_objects(store, prefixes, keep=list_referenced(current.record))
    except VitascopeError as error:
        log.warning("leftovers stay for now", job=work.job, attempt=work.attempt, error=str(error))


def plan_removal(record: JobRecord, attempt: int, kinds: Iterable[ObjectClass]) -> list[str]:
    """Prefixes of objects that are of no use any more, as seen by a stale run of `attempt`.

    A cancelled or withheld job loses everything that stages made. A run of an older attempt takes only its own objects
    along, and so does one of a failed job or of one that is back in the queue. A run of the present attempt that is
    stale without that was overtaken by a copy of itself: all objects are the copy's, too.
    """
    if record.state in UNWANTED:
        return [job_prefix(kind, record) for kind in MADE_BY_STAGES]
    if attempt < record.run.attempt or record.state in {State.QUEUED, State.FAILED}:
        return [attempt_prefix(kind, record, attempt) for kind in kinds]
    return []


def list_referenced(record: JobRecord) -> frozenset[str]:
    """Keys that the record still points to; a cancelled or withheld one needs none of them."""
    if record.state in UNWANTED:
        return frozenset()
    return list_resumable(record) | list_results(record)


def list_resumable(record: JobRecord) -> frozenset[str]:
    """The keys from which work can go on."""
    checkpoint = record.run.checkpoint.object if record.run.checkpoint else None
    return frozenset(ref.key for ref in (checkpoint, record.run.latents) if ref is not None)


def list_results(record: JobRecord) -> frozenset[str]:
    """The keys of what came out."""
    result = record.result
    return frozenset(ref.key for ref in (result.output, result.thumbnail, result.spritesheet) if ref is not None)


async def remove_objects(store: ObjectStore, prefixes: Iterable[str], keep: Collection[str] = ()) -> None:
    """Remove all objects under the prefixes, but for those to keep.

    Raises:
        VitascopeError: the store cannot be reached.
    """
    keys = [key for prefix in prefixes for key in await store.list(prefix) if key not in keep]
    if keys:
        await store.remove(keys)


async def remove_served(ledger: Ledger, store: ObjectStore, work: WorkItem, kinds: Iterable[ObjectClass]) -> None:
    """After a run that is done: remove what has served its job. Best effort: what stays is swept or expires.

    Nothing is removed of a job that has another attempt by now, or that the ledger does not have, since a lost ledger
    is rebuilt; and nothing before the copy from which it would be rebuilt is as new as the record.
    """
    try:
        current = await ledger.get(work.job)
        if current is not None and current.record.run.attempt == work.attempt:
            await keep_copy(ledger, store, current.record)
            await remove_objects(store, [job_prefix(kind, current.record) for kind in kinds])
    except VitascopeError as error:
        log.warning("objects stay until they expire", job=work.job, attempt=work.attempt, error=str(error))
