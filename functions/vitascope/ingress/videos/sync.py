"""`POST /v1/videos/sync`: the request waits for its video, and the answer is the file.

The video is a job like any other meanwhile. When the request ends, however it ends, so does the job: who hangs up or
waits too long has it cancelled, and its group is free within a step. What is left goes with the answer, unless the
request had an `Idempotency-Key`: then the same request may come again, and has the same file.
"""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress

import structlog
from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from starlette.types import Receive, Scope, Send

from vitascope.contracts import transitions
from vitascope.contracts.failures import FAILURES, FailureCode, FailureKind, VitascopeError
from vitascope.contracts.jobs import JobRecord
from vitascope.ingress.caller import Caller, GivenCaller
from vitascope.ingress.control import tell_group
from vitascope.ingress.door import Door, GivenDoor
from vitascope.ingress.errors import DoorError, ErrorView, make_error_body, make_error_response
from vitascope.ingress.files import describe_file, open_object
from vitascope.ingress.lookup import load_job
from vitascope.ingress.openapi import describe_errors
from vitascope.ingress.ranges import Span
from vitascope.ingress.sse import wait_for_news
from vitascope.ingress.submit import check_key
from vitascope.ingress.videos.create import IdempotencyKey, accept_video
from vitascope.ingress.videos.openapi import SYNC_EXTRA, describe_sync
from vitascope.ingress.videos.present import compute_status
from vitascope.ingress.videos.reading import make_wish, reading
from vitascope.ingress.videos.records import remove_video
from vitascope.runtime.advance import advance

DEED = "sync"
NO_RETRY = {"x-should-retry": "false"}
"""Clients of OpenAI try a 5xx again by themselves, which would make the video twice."""
_STATUS = {FailureKind.REFUSED: 400, FailureKind.WITHHELD: 400}
CANCELLED, FAILED, HUNG_UP = 409, 500, 499
LOOK_EVERY_S = 10.0
"""A change that the feed did not bring is seen after so long at the latest."""

router = APIRouter()
log = structlog.get_logger(__name__)


@router.post(
    "/v1/videos/sync",
    operation_id="createVideoSync",
    summary="Make a video and wait for it (vLLM-Omni)",
    response_class=Response,
    openapi_extra=SYNC_EXTRA,
    responses=describe_errors(400, 409, 413, 415, 429, 504) | describe_sync(),
)
async def create_video_sync(
    request: Request, door: GivenDoor, caller: GivenCaller, *, idempotency_key: IdempotencyKey = None
) -> Response:
    """The finished file. Who hangs up, or waits longer than the service allows, cancels it."""
    check_key(idempotency_key)
    with door.syncs.lease() as place:
        place.take(1)
        async with reading(door, request) as sent:
            body, wish = await make_wish(sent, DEED)
            accepted = await accept_video(door, caller, body, idempotency_key, wish=wish)
        end = _End(door, caller, accepted.stamped.record.id, is_kept=idempotency_key is not None)
        try:
            record = await _wait(door, caller, request, end)
            if record is None:
                log.info("client hung up", job=end.job, stage="ingress", attempt=accepted.stamped.record.run.attempt)
                await end.come()
                return Response(status_code=HUNG_UP)
            return await _answer(door, record, end)
        except BaseException:
            await asyncio.shield(end.come())
            raise


class _End:
    """The end of a request's job; it comes once."""

    def __init__(self, door: Door, caller: Caller, job: str, *, is_kept: bool) -> None:
        self.job = job
        self._door, self._caller, self._is_kept = door, caller, is_kept

    async def come(self) -> None:
        """Remove the job, or, if it is kept, cancel it where it has not ended. An outage leaves it to its expiry."""
        with suppress(VitascopeError, transitions.IllegalTransition):
            if not self._is_kept:
                await remove_video(self._door, self._caller, self.job)
                return
            before = await load_job(self._door, self._caller, self.job)
            cancelled = await advance(
                self._door.deps.ledger, self.job, lambda record: transitions.cancel(record, self._door.now)
            )
            self._door.jobs.apply(cancelled)
            await tell_group(self._door, before.record)


async def _wait(door: Door, caller: Caller, request: Request, end: _End) -> JobRecord | None:
    """The record once the job has ended; None if the client has hung up.

    Raises:
        VitascopeError: `sync_timed_out`; `not_found`, it was deleted meanwhile; `service_unavailable`, the door closes.
    """
    news, limit_s = asyncio.Event(), door.deps.settings.sync_timeout_s
    gone = asyncio.create_task(_wait_gone(request), name=f"client of {end.job}")
    gone.add_done_callback(lambda _: news.set())
    try:
        with door.streams.opened(news), door.jobs.listen(end.job, news):
            async with asyncio.timeout(limit_s):
                while not gone.done():
                    record = await _load(door, caller, end.job)
                    if record is not None and record.is_terminal:
                        return record
                    if door.streams.is_closing:
                        raise VitascopeError(FailureCode.SERVICE_UNAVAILABLE, "The video was cancelled.")
                    await wait_for_news(news, LOOK_EVERY_S)
                return None
    except TimeoutError as error:
        detail = f"The limit is {limit_s:g} s."
        raise DoorError(FailureCode.SYNC_TIMED_OUT, detail, headers=NO_RETRY) from error
    finally:
        gone.cancel()
        await asyncio.wait({gone})


async def _load(door: Door, caller: Caller, job: str) -> JobRecord | None:
    """The newest record; None if the ledger cannot tell at the moment."""
    try:
        return (await load_job(door, caller, job)).record
    except VitascopeError as error:
        if error.code is FailureCode.NOT_FOUND:
            raise
        return None


async def _wait_gone(request: Request) -> None:
    """Return when the client has hung up; its body has been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _answer(door: Door, record: JobRecord, end: _End) -> Response:
    """The file, or why there is none; the job ends with the answer."""
    if compute_status(record) != "completed":
        await end.come()
        return _answer_failure(record)
    file = describe_file(record, "video", disposition="attachment")
    pieces = await open_object(door.deps.store, file.ref, Span(0, file.ref.bytes))
    headers = {**file.headers, **_make_headers(record), "content-length": str(file.ref.bytes)}
    headers.pop("accept-ranges", None)
    return _Delivery(pieces, headers, file.media_type, end)


def _make_headers(record: JobRecord) -> Mapping[str, str]:
    times, result = record.times, record.result
    waited_s = (times.finished - times.created).total_seconds() if times.finished is not None else 0.0
    return {
        "x-request-id": f"video_sync-{uuid.uuid4().hex}",
        "x-model": record.request.model,
        "x-video-id": record.id,
        "x-inference-time-s": f"{waited_s:.3f}",
        "x-stage-durations": json.dumps(result.stage_s, separators=(",", ":")),
        "x-peak-memory-mb": "0.000",
    }


def _answer_failure(record: JobRecord) -> JSONResponse:
    failure = record.run.failure
    if failure is None:
        error = DoorError(FailureCode.NOT_READY, f"It is {record.state}.", status=CANCELLED)
        return make_error_response(error)
    status = _STATUS.get(FAILURES[failure.code].kind, FAILED)
    message = f"Video generation failed: {failure.message}"
    view = ErrorView(error=make_error_body(failure.code, message, status=status))
    return JSONResponse(view.model_dump(mode="json"), status_code=status, headers=NO_RETRY)


class _Delivery(StreamingResponse):
    """The file, and after it, or once it broke off, the end of the job."""

    def __init__(self, pieces: AsyncIterator[bytes], headers: Mapping[str, str], media_type: str, end: _End) -> None:
        super().__init__(pieces, headers=headers, media_type=media_type)
        self._end = end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            await asyncio.shield(self._end.come())
