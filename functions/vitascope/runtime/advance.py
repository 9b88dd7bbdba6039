"""Advance a record: read, change, compare-and-set, again if somebody was faster."""

from collections.abc import Callable

from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.jobs import JobRecord
from vitascope.runtime.completeness import check_not_lost
from vitascope.runtime.ports import Conflict, Ledger, Stamped

ADVANCE_TRIES = 32
"""More writers of one record than this at the same moment do not exist: each retry means that somebody else won."""


async def advance(ledger: Ledger, job: str, change: Callable[[JobRecord], JobRecord]) -> Stamped:
    """Apply a change of `contracts.transitions` to the newest record of a job.

    A change that returns its argument stores nothing.

    Raises:
        VitascopeError: `not_found`, there is no such job; `service_unavailable`, it is missing because the ledger was
            lost, and comes back when that is rebuilt.
        TransitionError: what `change` raises.
    """
    for _ in range(ADVANCE_TRIES):
        current = await ledger.get(job)
        if current is None:
            await check_not_lost(ledger, job)
            raise VitascopeError(FailureCode.NOT_FOUND, f"There is no job {job}.")
        changed = change(current.record)
        if changed is current.record:
            return current
        try:
            return await ledger.replace(current, changed)
        except Conflict:
            continue
    raise VitascopeError(FailureCode.SERVICE_UNAVAILABLE, f"The record of {job} is being changed too fast.")
