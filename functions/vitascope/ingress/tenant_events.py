"""`GET /v1/events`: server-sent events of all jobs of the caller, for as long as it stays.

The states of every job, in the order of the ledger's revisions, which are the events' ids. The stream begins with
`resync`, which tells the client to read the list of its jobs: everything that happens after that comes as an event. Who
comes back with the last id misses nothing, at whatever replica, or is told to `resync` again.
"""

import asyncio
from collections.abc import AsyncGenerator
from typing import Annotated

from fastapi import APIRouter, Header, Response
from fastapi.responses import StreamingResponse

from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.ingress.caller import Caller, GivenCaller
from vitascope.ingress.door import Door, GivenDoor
from vitascope.ingress.openapi import describe_errors, describe_stream
from vitascope.ingress.sse import (
    KEEP_ALIVE,
    KEEP_ALIVE_S,
    MAX_STREAM_S,
    MAX_STREAMS,
    RETRY,
    STREAM_HEADERS,
    format_resync,
    format_status,
    parse_revision,
    wait_for_news,
)

SYNC_TIMEOUT_S = 5.0
"""A replica that has just started waits so long for its read model."""

router = APIRouter()


@router.get(
    "/v1/events",
    operation_id="watchEvents",
    summary="Follow all jobs",
    response_class=Response,
    responses=describe_errors() | describe_stream("Server-sent events `status` and `resync`"),
)
async def watch_events(
    door: GivenDoor,
    caller: GivenCaller,
    last_event_id: Annotated[str | None, Header(description="the id of the last event that arrived")] = None,
) -> Response:
    """Each new state of each of the caller's jobs; progress is told by the stream of a job."""
    if not await door.jobs.wait_synced(SYNC_TIMEOUT_S):
        raise VitascopeError(FailureCode.SERVICE_UNAVAILABLE, "The jobs are still being read.")
    if door.streams.count >= MAX_STREAMS:
        raise VitascopeError(FailureCode.SERVICE_UNAVAILABLE, "Too many streams are open here.")
    return StreamingResponse(
        stream_all(door, caller, parse_revision(last_event_id)), media_type="text/event-stream", headers=STREAM_HEADERS
    )


async def stream_all(
    door: Door, caller: Caller, seen: int | None, *, keep_alive_s: float = KEEP_ALIVE_S
) -> AsyncGenerator[bytes]:
    """The stream of a tenant's events after revision `seen`, as bytes of `text/event-stream`."""
    news = asyncio.Event()
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + MAX_STREAM_S
    log = door.jobs.changes
    with door.streams.opened(news), log.listen(caller.tenant, news):
        yield RETRY
        if seen is None:
            seen = log.newest
            yield format_resync("The stream begins here; list the jobs.", revision=seen)
        while not (door.streams.is_closing or loop.time() >= deadline_s):
            try:
                changes = log.read(caller.tenant, seen)
            except LookupError:
                seen = log.newest
                yield format_resync("What followed that event is no longer known here; list the jobs.", revision=seen)
                continue
            for change in changes:
                seen = change.revision
                yield format_status(change)
            if not await wait_for_news(news, keep_alive_s):
                yield KEEP_ALIVE
