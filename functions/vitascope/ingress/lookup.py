"""Find a caller's job: the ledger's own answer, and 404 for whatever is not theirs."""

from vitascope.contracts.ids import is_job_id
from vitascope.ingress.caller import Caller
from vitascope.ingress.door import Door
from vitascope.ingress.errors import raise_not_found
from vitascope.runtime.ports import Stamped


async def load_job(door: Door, caller: Caller, job: str) -> Stamped:
    """The newest record of the caller's job.

    Raises:
        VitascopeError: `not_found`, whether there is no such job or it is somebody else's; `service_unavailable`, the
            ledger was lost and is not rebuilt yet, so that nothing can be said.
    """
    stamped = await door.deps.ledger.get(job) if is_job_id(job) else None
    if stamped is None and is_job_id(job):
        await door.deps.completeness.check()
        stamped = await door.deps.ledger.get(job)  # it may have been rebuilt between the two
    if stamped is None or stamped.record.request.tenant != caller.tenant:
        raise_not_found("There is no such job.")
    return stamped
