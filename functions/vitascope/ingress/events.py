"""`GET /v1/video-jobs/{id}/events`: server-sent events of one job, until it ends.

States come from the ledger's feed, with the ledger's revision as event id; progress has no id, since what was missed
of it does not matter. One subscription of the replica feeds all streams, so a stream costs a little memory and
nothing on the bus.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Header, Response
from fastapi.responses import StreamingResponse

from vitascope.contracts.events import Progress
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.flow import STAGE_OF
from vitascope.ingress.caller import Caller, GivenCaller
from vitascope.ingress.door import Door, GivenDoor
from vitascope.ingress.lookup import load_job
from vitascope.ingress.openapi import describe_errors
from vitascope.ingress.present import find_progress
from vitascope.runtime.ports import Stamped

KEEP_ALIVE_S = 15.0
"""Proxies cut connections that are silent for a minute, some for thirty seconds."""
MAX_STREAM_S = 6 * 3600.0
"""A stream that is open longer is closed; the client comes back with the last id it has."""
MAX_STREAMS = 4_000
"""Open streams of one replica."""
RETRY_MS = 2_000
"""How long a client waits before it comes back."""
_MAX_REVISION_DIGITS = 19

router = APIRouter()


@router.get(
    "/v1/video-jobs/{job}/events",
    operation_id="watchVideoJob",
    summary="Follow a job",
    response_class=Response,
    responses=describe_errors(404)
    | {200: {"description": "Server-sent events `status` and `progress`", "content": {"text/event-stream": {}}}}
    | {204: {"description": "The job has ended, and the client has seen it"}},
)
async def watch_job(
    job: str,
    door: GivenDoor,
    caller: GivenCaller,
    last_event_id: Annotated[str | None, Header(description="the id of the last event that arrived")] = None,
) -> Response:
    """The job's present state at once, then each new state and progress; the stream ends with the job."""
    stamped = await load_job(door, caller, job)
    seen = _parse_revision(last_event_id)
    if stamped.record.is_terminal and stamped.revision <= seen:
        return Response(status_code=204)  # tells an EventSource not to come back
    if door.streams.count >= MAX_STREAMS:
        raise VitascopeError(FailureCode.SERVICE_UNAVAILABLE, "Too many streams are open here.")
    return StreamingResponse(
        stream_events(door, caller, job, seen),
        media_type="text/event-stream",
        headers={"x-accel-buffering": "no"},
    )


async def stream_events(
    door: Door, caller: Caller, job: str, seen: int, *, keep_alive_s: float = KEEP_ALIVE_S
) -> AsyncIterator[bytes]:
    """The stream of a job's events newer than revision `seen`, as bytes of `text/event-stream`."""
    news = asyncio.Event()
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + MAX_STREAM_S
    with door.streams.opened(news), door.jobs.listen(job, news) as changes, door.progress.listen(job, news):
        yield f"retry: {RETRY_MS}\n\n".encode()
        newest = await load_job(door, caller, job)  # after listening began, so that nothing falls between the two
        if newest.revision > seen:
            yield _format_status(newest)
        shown: Progress | None = None
        while not (newest.record.is_terminal or door.streams.is_closing or loop.time() >= deadline_s):
            for stamped in changes.take():
                if stamped.revision > newest.revision:
                    is_news = _summary(stamped) != _summary(newest)
                    newest = stamped
                    if is_news:
                        yield _format_status(newest)
            progress = find_progress(door, newest.record)[1]
            if progress is not None and progress is not shown:
                shown = progress
                yield _format_progress(progress)
            if not newest.record.is_terminal and not await _wait(news, keep_alive_s):
                yield b": keep-alive\n\n"


async def _wait(news: asyncio.Event, timeout_s: float) -> bool:
    """Whether news came in time."""
    try:
        async with asyncio.timeout(timeout_s):
            await news.wait()
    except TimeoutError:
        return False
    news.clear()
    return True


def _summary(stamped: Stamped) -> dict[str, object]:
    record = stamped.record
    failure = record.run.failure
    return {
        "id": record.id,
        "status": record.state,
        "attempt": record.run.attempt,
        "stage": STAGE_OF.get(record.state),
        "reason": record.run.reason,
        "error": failure.model_dump(mode="json", include={"code", "message", "stage"}) if failure else None,
    }


def _format_status(stamped: Stamped) -> bytes:
    return _format("status", _summary(stamped), f"id: {stamped.revision}\n")


def _format_progress(progress: Progress) -> bytes:
    view = progress.model_dump(mode="json", include={"attempt", "stage", "step", "steps", "step_s", "remaining_s"})
    return _format("progress", {"id": progress.job, **view})


def _format(name: str, view: dict[str, object], event_id: str = "") -> bytes:
    return f"event: {name}\n{event_id}data: {json.dumps(view)}\n\n".encode()  # JSON in ASCII has no line breaks


def _parse_revision(text: str | None) -> int:
    """The revision in a `Last-Event-ID`; 0, which is before all, for whatever is none of ours."""
    is_ours = text is not None and text.isascii() and text.isdigit() and len(text) <= _MAX_REVISION_DIGITS
    return int(text) if text is not None and is_ours else 0
