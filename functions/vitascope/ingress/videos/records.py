"""`GET` and `DELETE /v1/videos/{video}`, and the list."""

import asyncio
from typing import Annotated, Literal

import structlog
from fastapi import APIRouter, Query, Response

from vitascope.contracts import transitions
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.flow import State
from vitascope.contracts.ids import is_job_id
from vitascope.contracts.jobs import JobRecord
from vitascope.ingress.caller import Caller, GivenCaller
from vitascope.ingress.control import tell_group
from vitascope.ingress.door import Door, GivenDoor
from vitascope.ingress.errors import raise_not_found
from vitascope.ingress.openapi import describe_errors
from vitascope.ingress.videos.lookup import load_video
from vitascope.ingress.videos.openapi import describe_video
from vitascope.ingress.videos.present import make_headers, present_video
from vitascope.ingress.videos.views import VideoDeletedView, VideoListView, VideoView
from vitascope.runtime.advance import advance

MAX_LIMIT = 100
SYNC_TIMEOUT_S = 5.0
"""A replica that has just started waits so long for its read model before it says that it cannot tell."""
_LISTED = tuple(state for state in State if state is not State.EXPIRED)

router = APIRouter()
log = structlog.get_logger(__name__)


@router.get("/v1/videos", operation_id="listVideos", summary="Videos (OpenAI)", responses=describe_errors(400))
async def list_videos(
    door: GivenDoor,
    caller: GivenCaller,
    *,
    limit: Annotated[int, Query(ge=0, le=MAX_LIMIT)] = MAX_LIMIT,
    order: Annotated[Literal["asc", "desc"], Query(description="by creation")] = "desc",
    after: Annotated[str | None, Query(description="the `last_id` of the page before")] = None,
) -> VideoListView:
    """A page of videos. After an id that is none, there are none."""
    if not await door.jobs.wait_synced(SYNC_TIMEOUT_S):
        raise VitascopeError(FailureCode.SERVICE_UNAVAILABLE, "The list is still being read.")
    if after is not None and not is_job_id(after):
        return VideoListView(data=[], first_id=None, last_id=None, has_more=False)
    page = door.jobs.find_page(caller.tenant, _LISTED, limit=limit, after=after, is_descending=order == "desc")
    found = await asyncio.gather(*(_present(door, job) for job in page.ids))
    return VideoListView(
        data=[view for view in found if view is not None],
        first_id=page.ids[0] if page.ids else None,
        last_id=page.ids[-1] if page.ids else None,
        has_more=page.has_more,
    )


@router.get(
    "/v1/videos/{video}",
    operation_id="getVideo",
    summary="A video (OpenAI)",
    responses=describe_errors(404) | describe_video("The video as it is now"),
)
async def get_video(video: str, response: Response, door: GivenDoor, caller: GivenCaller) -> VideoView:
    """The video as it is now; a failed one too is answered with 200 and has its `error` inside."""
    record = await load_video(door, caller, video)
    response.headers.update(make_headers(door, record))
    return present_video(door, record)


@router.delete(
    "/v1/videos/{video}", operation_id="deleteVideo", summary="Delete a video (OpenAI)", responses=describe_errors(404)
)
async def delete_video(video: str, door: GivenDoor, caller: GivenCaller) -> VideoDeletedView:
    """Cancel the video if it is being made, and take it and its files away. Of several who ask, one is told so."""
    await remove_video(door, caller, video)
    return VideoDeletedView(id=video)


async def remove_video(door: Door, caller: Caller, video: str) -> None:
    """Delete the caller's video, whatever its state.

    Raises:
        VitascopeError: `not_found`, it is none, or was deleted, or has expired.
    """
    before = await load_video(door, caller, video)

    def change(record: JobRecord) -> JobRecord:
        if record.times.deleted is not None or record.state is State.EXPIRED:
            raise_not_found("The video was deleted a moment ago.")
        return transitions.delete(record, door.now)

    stamped = await advance(door.deps.ledger, video, change)
    door.jobs.apply(stamped)
    await tell_group(door, before)
    log.info("job deleted", job=video, stage="ingress", attempt=before.run.attempt)


async def _present(door: Door, job: str) -> VideoView | None:
    """The video as the ledger has it now; None if it went a moment ago."""
    stamped = await door.deps.ledger.get(job)
    if stamped is None:
        door.jobs.forget(job)
        return None
    record = stamped.record
    is_gone = record.times.deleted is not None or record.state is State.EXPIRED
    return None if is_gone else present_video(door, record)
