"""`GET /v1/video-jobs`: pages of jobs."""

import asyncio
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request

from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.flow import State
from vitascope.contracts.ids import is_job_id
from vitascope.ingress.caller import GivenCaller
from vitascope.ingress.door import Door, GivenDoor
from vitascope.ingress.openapi import describe_errors
from vitascope.ingress.present import present_job
from vitascope.ingress.views import JobListView, JobView

MAX_LIMIT = 100
SYNC_TIMEOUT_S = 5.0
"""A replica that has just started waits so long for its read model before it says that it cannot tell."""
_PARAMETERS = frozenset({"status", "order", "limit", "after"})

router = APIRouter()


@router.get("/v1/video-jobs", operation_id="listVideoJobs", summary="Jobs", responses=describe_errors(400))
async def list_jobs(
    request: Request,
    door: GivenDoor,
    caller: GivenCaller,
    *,
    status: Annotated[list[State] | None, Query(description="only these; may be repeated")] = None,
    order: Annotated[Literal["asc", "desc"], Query(description="by creation")] = "desc",
    limit: Annotated[int, Query(ge=1, le=MAX_LIMIT)] = 20,
    after: Annotated[str | None, Query(description="the `last_id` of the page before")] = None,
) -> JobListView:
    """A page of jobs, newest first. Jobs that come or end meanwhile repeat nobody and leave nobody out."""
    _check_parameters(request, after)
    if not await door.jobs.wait_synced(SYNC_TIMEOUT_S):
        raise VitascopeError(FailureCode.SERVICE_UNAVAILABLE, "The list is still being read.")
    states = tuple(dict.fromkeys(status)) if status else tuple(State)
    page = door.jobs.find_page(caller.tenant, states, limit=limit, after=after, is_descending=order == "desc")
    found = await asyncio.gather(*(_present(door, job) for job in page.ids))
    return JobListView(
        data=[view for view in found if view is not None],
        first_id=page.ids[0] if page.ids else None,
        last_id=page.ids[-1] if page.ids else None,
        has_more=page.has_more,
    )


def _check_parameters(request: Request, after: str | None) -> None:
    for name in request.query_params:
        if name not in _PARAMETERS:
            known = ", ".join(sorted(_PARAMETERS))
            raise VitascopeError(FailureCode.UNKNOWN_FIELD, f"A list takes {known}.", param=ascii(name[:64])[1:-1])
    if after is not None and not is_job_id(after):
        raise VitascopeError(FailureCode.INVALID_REQUEST, "after is the id of a job.", param="after")


async def _present(door: Door, job: str) -> JobView | None:
    """The job as the ledger has it now, so that a page is no older than the answer; None if it is gone."""
    stamped = await door.deps.ledger.get(job)
    if stamped is None:
        door.jobs.forget(job)
        return None
    return await present_job(door, stamped.record)
