"""`POST /v1/video-jobs/{job}/preempt`: free the GPU group that denoises a job, and keep what it has done."""

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


@router.post(
    "/v1/video-jobs/{job}/preempt",
    status_code=202,
    operation_id="preemptVideoJob",
    summary="Give a job's GPU group to another",
    responses=describe_errors(404, 409),
)
async def preempt_job(job: str, door: GivenDoor, caller: GivenCaller) -> JobView:
    """Ask the group to put the job back into the queue at the next step, with a checkpoint: no step is made twice.

    Until that has come about the job is `running` with `preempt_requested`, and asking again changes nothing.
    """
    await load_job(door, caller, job)
    try:
        stamped = await advance(door.deps.ledger, job, transitions.request_preempt)
    except transitions.IllegalTransition as error:
        state = (await load_job(door, caller, job)).record.state
        raise VitascopeError(FailureCode.NOT_PREEMPTABLE, f"It is {state}.") from error
    door.jobs.apply(stamped)
    await tell_group(door, stamped.record)
    log.info("preemption requested", job=job, stage="ingress", attempt=stamped.record.run.attempt)
    return await present_job(door, stamped.record)
