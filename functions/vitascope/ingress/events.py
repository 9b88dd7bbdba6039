"""`GET /v1/video-jobs/{id}/events`: server-sent events of one job, until it ends.

States come from the ledger's feed, with the ledger's revision as event id; progress has no id, since what was missed
of it does not matter. Who comes back with the last id is shown what followed from the ledger's own history, at whatever
replica; if that is no longer kept, `resync` says so before the present state. One subscription of the replica feeds all
streams, so a stream costs a little memory and nothing on the bus.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Annotated

from fastapi import APIRouter, Header, Response
from fastapi.responses import StreamingResponse

from vitascope.contracts.events import Progress
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.ingress.caller import Caller, GivenCaller
from vitascope.ingress.door import Door, GivenDoor
from vitascope.ingress.lookup import load_job
from vitascope.ingress.openapi import describe_errors, describe_stream
from vitascope.ingress.present import find_progress
from vitascope.ingress.sse import (
    KEEP_ALIVE,
    KEEP_ALIVE_S,
    MAX_STREAM_S,
    MAX_STREAMS,
    RETRY,
    STREAM_HEADERS,
    format_progress,
    format_resync,
    format_status,
    parse_revision,
    wait_for_news,
)
from vitascope.runtime.change_log import make_change
from vitascope.runtime.ports import Stamped

router = APIRouter()


@router.get(
    "/v1/video-jobs/{job}/events",
    operation_id="watchVideoJob",
    summary="Follow a job",
    response_class=Response,
    responses=describe_errors(404)
    | describe_stream("Server-sent events `status`, `progress` and `resync`")
    | {204: {"description": "The job has ended, and the client has seen it"}},
)
async def watch_job(
    job: str,
    door: GivenDoor,
    caller: GivenCaller,
    last_event_id: Annotated[str | None, Header(description="the id of the last event that arrived")] = None,
) -> Response:
    """The job's present state at once, then each new state and progress; the stream ends with the job.

    With `Last-Event-ID` it goes on after that event.
    """
    stamped = await load_job(door, caller, job)
    seen = parse_revision(last_event_id)
    if stamped.record.is_terminal and stamped.revision == seen:
        return Response(status_code=204)  # tells an EventSource not to come back
    if door.streams.count >= MAX_STREAMS:
        raise VitascopeError(FailureCode.SERVICE_UNAVAILABLE, "Too many streams are open here.")
    return StreamingResponse(
        stream_events(door, caller, job, seen), media_type="text/event-stream", headers=STREAM_HEADERS
    )


async def stream_events(
    door: Door, caller: Caller, job: str, seen: int | None, *, keep_alive_s: float = KEEP_ALIVE_S
) -> AsyncGenerator[bytes]:
    """The stream of a job's events after revision `seen`, as bytes of `text/event-stream`; None shows the present."""
    news = asyncio.Event()
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + MAX_STREAM_S
    with door.streams.opened(news), door.jobs.listen(job, news) as changes, door.progress.listen(job, news):
        yield RETRY
        newest = await load_job(door, caller, job)  # after listening began, so that nothing falls between the two
        missed = await _read_missed(door, newest, seen)
        if missed is None and seen is not None:
            yield format_resync("What followed that event is no longer known here; this is the present state.", job)
        for stamped in (newest,) if missed is None else missed:
            yield format_status(make_change(stamped))
        shown: Progress | None = None
        while not (newest.record.is_terminal or door.streams.is_closing or loop.time() >= deadline_s):
            for stamped in changes.take():
                if stamped.revision > newest.revision:
                    is_news = not make_change(stamped).says_the_same(make_change(newest))
                    newest = stamped
                    if is_news:
                        yield format_status(make_change(newest))
            progress = find_progress(door, newest.record)[1]
            if progress is not None and progress is not shown:
                shown = progress
                yield format_progress(progress)
            if not newest.record.is_terminal and not await wait_for_news(news, keep_alive_s):
                yield KEEP_ALIVE


async def _read_missed(door: Door, newest: Stamped, seen: int | None) -> Sequence[Stamped] | None:
    """The records after revision `seen` that show something new, the newest last; None if that is not known."""
    if seen is None:
        return None
    if seen == newest.revision:
        return ()
    try:
        history = await door.deps.ledger.read_history(newest.record.id, seen)
    except VitascopeError:
        return None
    upto = [stamped for stamped in history if stamped.revision < newest.revision]
    if not upto:
        return None
    steps = zip(upto, (*upto[1:], newest), strict=True)
    return [now for before, now in steps if not make_change(now).says_the_same(make_change(before))]
