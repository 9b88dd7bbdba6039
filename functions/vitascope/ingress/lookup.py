"""Find a caller's job: the ledger's own answer, and 404 for whatever is not theirs."""

from vitascope.contracts.ids import is_job_id
from vitascope.ingress.caller import Caller
from vitascope.ingress.door import Door
from vitascope.ingress.errors import raise_not_found
from vitascope.runtime.ports import Stamped

_NO_SUCH_JOB = "There is no such job."


async def load_job(door: Door, caller: Caller, job: str) -> Stamped:
    """The newest record of the caller's job.

    Raises:
        VitascopeError: `not_found`, whether there is no such job, it is somebody else's or it was deleted;
            `service_unavailable`, the ledger was lost and is not rebuilt yet, so that nothing can be said.
    """
    stamped = await find_job(door, caller, job)
    if stamped.record.times.deleted is not None:
        raise_not_found(_NO_SUCH_JOB)
    return stamped


async def find_job(door: Door, caller: Caller, job: str) -> Stamped:
    """The same, but for a deleted job's record, which is found until it is forgotten."""
    if is_job_id(job):
        stamped = await _find_own(door, caller, job)
        if stamped is None:  # somebody else's takes the same way as none, so that the time it takes tells nothing
            await door.deps.completeness.check()
            stamped = await _find_own(door, caller, job)  # it may have been rebuilt between the two
        if stamped is not None:
            return stamped
    return raise_not_found(_NO_SUCH_JOB)


async def _find_own(door: Door, caller: Caller, job: str) -> Stamped | None:
    stamped = await door.deps.ledger.get(job)
    return stamped if stamped is not None and stamped.record.request.tenant == caller.tenant else None
