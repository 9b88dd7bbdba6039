"""`DELETE /v1/video-jobs/{job}`: the job is gone for its owner at once, and its files soon after.

One compare-and-set says so: a live job is cancelled by it, an ended one expires. Whoever follows the ledger removes the
files, and the janitor forgets the record a day later, when no quota counts it any more. So nothing that dies in
between leaves a job half deleted, and whoever deletes twice hears the same.
"""

from contextlib import suppress
from typing import Literal

import structlog
from fastapi import APIRouter

from vitascope.contracts import transitions
from vitascope.contracts.frozen import Frozen
from vitascope.contracts.objects import record_keys
from vitascope.ingress.caller import Caller, GivenCaller
from vitascope.ingress.control import tell_group
from vitascope.ingress.door import Door, GivenDoor
from vitascope.ingress.errors import raise_not_found
from vitascope.ingress.lookup import find_job
from vitascope.ingress.openapi import describe_errors
from vitascope.runtime.advance import advance
from vitascope.runtime.ports import Conflict, Stamped

router = APIRouter()
log = structlog.get_logger(__name__)


class DeletedView(Frozen):
    """A job that is gone."""

    id: str
    object: Literal["video.job.deleted"] = "video.job.deleted"
    deleted: Literal[True] = True


@router.delete(
    "/v1/video-jobs/{job}",
    operation_id="deleteVideoJob",
    summary="Delete a job",
    responses=describe_errors(404),
)
async def delete_job(job: str, door: GivenDoor, caller: GivenCaller) -> DeletedView:
    """Cancel the job if it is alive, and take it and its files away. Deleting a deleted job is answered alike."""
    await remove_job(door, caller, job)
    return DeletedView(id=job)


async def remove_job(door: Door, caller: Caller, job: str) -> None:
    """Delete the caller's job, whatever its state.

    Raises:
        VitascopeError: `not_found`; the ledger or the store cannot be reached.
    """
    before = await find_job(door, caller, job)
    try:
        stamped = await advance(door.deps.ledger, job, lambda record: transitions.delete(record, door.now))
    except transitions.IllegalTransition:
        await _forget(door, job)
    else:
        door.jobs.apply(stamped)
        await tell_group(door, before.record)
    log.info("job deleted", job=job, stage="ingress", attempt=before.record.run.attempt)


async def _forget(door: Door, job: str) -> None:
    """The end of an expired job: its copies, then its record."""
    stamped: Stamped | None = await door.deps.ledger.get(job)
    if stamped is None:
        raise_not_found("There is no such job.")
    await door.deps.store.remove(record_keys(stamped.record))
    with suppress(Conflict):  # another request, or the janitor, was quicker
        await door.deps.ledger.forget(stamped)
    door.jobs.forget(job)
