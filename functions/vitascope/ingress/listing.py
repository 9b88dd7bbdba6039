"""`GET /v1/video-jobs`: pages of jobs."""

import asyncio
import re
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import AwareDatetime, Field

from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.flow import State
from vitascope.contracts.frozen import Frozen
from vitascope.contracts.ids import is_job_id
from vitascope.contracts.jobs import Tier
from vitascope.ingress.caller import GivenCaller
from vitascope.ingress.door import Door, GivenDoor
from vitascope.ingress.openapi import describe_errors
from vitascope.ingress.present import present_job
from vitascope.ingress.views import JobListView, JobView
from vitascope.runtime.job_filter import JobFilter

MAX_LIMIT = 100
SYNC_TIMEOUT_S = 5.0
"""A replica that has just started waits so long for its read model before it says that it cannot tell."""
MAX_LABELS = 16
"""Of one list; a job has no more."""
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,62}(=.{0,128})?", re.DOTALL)

router = APIRouter()


class ListQuery(Frozen):
    """Which jobs, in which order, and where the page begins."""

    status: list[State] = Field([], description="only these; may be repeated")
    tier: list[Tier] = Field([], description="only these; may be repeated")
    label: list[str] = Field(
        [], max_length=MAX_LABELS, description="`NAME=VALUE`, or `NAME` for any value; repeated, a job has all of them"
    )
    created_after: AwareDatetime | None = Field(None, description="later than this moment: RFC 3339 with a zone")
    created_before: AwareDatetime | None = Field(None, description="earlier than this moment")
    order: Literal["asc", "desc"] = Field("desc", description="by creation")
    limit: int = Field(20, ge=1, le=MAX_LIMIT)
    after: str | None = Field(None, description="the `last_id` of the page before")


@router.get("/v1/video-jobs", operation_id="listVideoJobs", summary="Jobs", responses=describe_errors(400))
async def list_jobs(door: GivenDoor, caller: GivenCaller, query: Annotated[ListQuery, Query()]) -> JobListView:
    """A page of jobs, newest first. Jobs that come or end meanwhile repeat nobody and leave nobody out.

    With filters that few jobs pass, a page may be short, or empty, although `has_more`: go on after its `last_id`.
    """
    _check_query(query)
    if not await door.jobs.wait_synced(SYNC_TIMEOUT_S):
        raise VitascopeError(FailureCode.SERVICE_UNAVAILABLE, "The list is still being read.")
    page = door.jobs.find_page(
        caller.tenant,
        tuple(dict.fromkeys(query.status)) or tuple(State),
        limit=query.limit,
        after=query.after,
        is_descending=query.order == "desc",
        wanted=JobFilter(tuple(query.tier), tuple(query.label), query.created_after, query.created_before),
    )
    found = await asyncio.gather(*(_present(door, job) for job in page.ids))
    return JobListView(
        data=[view for view in found if view is not None],
        first_id=page.ids[0] if page.ids else None,
        last_id=page.last_id if page.ids or page.has_more else None,
        has_more=page.has_more,
    )


def _check_query(query: ListQuery) -> None:
    if query.after is not None and not is_job_id(query.after):
        raise VitascopeError(FailureCode.INVALID_REQUEST, "after is the id of a job.", param="after")
    if any(_LABEL.fullmatch(label) is None for label in query.label):
        raise VitascopeError(FailureCode.INVALID_REQUEST, "label is NAME=VALUE, or NAME.", param="label")


async def _present(door: Door, job: str) -> JobView | None:
    """The job as the ledger has it now, so that a page is no older than the answer; None if it is gone."""
    stamped = await door.deps.ledger.get(job)
    if stamped is not None and stamped.record.times.deleted is not None:
        return None  # a moment ago
    if stamped is None:
        door.jobs.forget(job)
        return None
    return await present_job(door, stamped.record)
