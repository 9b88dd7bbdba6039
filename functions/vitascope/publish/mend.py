"""Mends what a rebuild of the ledger would miss: the copy of a live job's record."""

import structlog

from vitascope.contracts.objects import record_key
from vitascope.runtime.copies import keep_copy
from vitascope.runtime.ports import Ledger, ObjectStore

log = structlog.get_logger(__name__)


async def restore_copy(ledger: Ledger, store: ObjectStore, job: str) -> bool:
    """Put the copy of a job's record if it is missing; whether it was.

    Raises:
        VitascopeError: the ledger or the store cannot be reached.
    """
    current = await ledger.get(job)
    if current is None or await store.size(record_key(current.record)) is not None:
        return False
    await keep_copy(ledger, store, current.record)
    log.warning("missing copy restored", job=job, stage="publish", attempt=current.record.run.attempt)
    return True
