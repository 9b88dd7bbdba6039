"""One job: read it, cancel it."""

import structlog
from fastapi import APIRouter

from vitascope.contracts import transitions
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.ingress.caller import GivenCaller
from vitascope.ingress.control import tell_group
from vitascope.ingress.door import GivenDoor
from vitascope.ingress.lookup import load_job
from vitascope.ingress.openapi import describe_errors
from vitascope.ingress.present import present_job
from vitascope.ingress.views import JobView
from vitascope.runtime.advance import advance

router = APIRouter()
log = structlog.get_logger(__name__)


@router.get("/v1/video-jobs/{job}", operation_id="getVideoJob", summary="A job", responses=describe_errors(404))
async def get_job(job: str, door: GivenDoor, caller: GivenCaller) -> JobView:
    """The job as it is now; a failed one too is answered with 200 and has its `error` inside."""
    return await present_job(door, (await load_job(door, caller, job)).record)


@router.post(
    "/v1/video-jobs/{job}/cancel",
    operation_id="cancelVideoJob",
    summary="Cancel a job",
    responses=describe_errors(404, 409),
)
async def cancel_job(job: str, door: GivenDoor, caller: GivenCaller) -> JobView:
    """Cancel a job that has not ended. A job that is cancelled already is answered in the same way."""
    before = (await load_job(door, caller, job)).record
    try:
        stamped = await advance(door.deps.ledger, job, lambda record: transitions.cancel(record, door.now))
    except transitions.IllegalTransition as error:
        ended = (await load_job(door, caller, job)).record.state
        raise VitascopeError(FailureCode.NOT_CANCELLABLE, f"It is {ended}.") from error
    door.jobs.apply(stamped)
    await tell_group(door, before)
    log.info("job cancelled", job=job, stage="ingress", attempt=stamped.record.run.attempt)
    return await present_job(door, stamped.record)
