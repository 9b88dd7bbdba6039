"""`GET /v1/video-jobs/{id}/content`: the file itself, in any range, straight from the store."""

from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse

from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.flow import State
from vitascope.contracts.jobs import JobRecord, ObjectRef
from vitascope.ingress.caller import GivenCaller
from vitascope.ingress.door import GivenDoor
from vitascope.ingress.errors import DoorError
from vitascope.ingress.lookup import load_job
from vitascope.ingress.openapi import describe_errors
from vitascope.ingress.ranges import RangeUnsatisfiable, Span, Validators, is_unchanged, may_resume, parse_range
from vitascope.runtime.ports import ObjectStore

Variant = Literal["video", "thumbnail"]
_MEDIA = {"video": ("video/mp4", "mp4"), "thumbnail": ("image/jpeg", "jpg")}
_HEADERS = {
    "accept-ranges": "bytes",
    "cache-control": "private, no-cache",  # a cache may keep it, and asks with the entity tag before it uses it
    # A browser that opens the address shows the file in a page of its own making.
    "content-security-policy": "default-src 'none'; media-src 'self'; img-src 'self'; style-src 'unsafe-inline'",
}
_DESCRIPTION: dict[int | str, dict[str, Any]] = {  # OpenAPI: whatever JSON can say
    200: {"description": "The whole file", "content": {"video/mp4": {}, "image/jpeg": {}}},
    206: {"description": "The range that was asked for", "content": {"video/mp4": {}, "image/jpeg": {}}},
    304: {"description": "The client has it already"},
}
RETRY_AFTER_S = 2
"""When to ask again for a file that is not there yet: about as long as the last part of a short clip takes."""
_PATH = "/v1/video-jobs/{job}/content"

router = APIRouter()


@router.get(
    _PATH,
    operation_id="getVideoContent",
    summary="The file",
    response_class=Response,
    responses=describe_errors(404, 409, 410, 416) | _DESCRIPTION,
)
async def get_content(
    job: str,
    request: Request,
    door: GivenDoor,
    caller: GivenCaller,
    *,
    variant: Annotated[Variant, Query()] = "video",
) -> Response:
    """The file of a job that has succeeded. `Range`, `If-Range`, `If-None-Match` and `If-Modified-Since` work."""
    record = (await load_job(door, caller, job)).record
    ref, validators, headers = _describe(record, variant)
    if is_unchanged(validators, request.headers.get("if-none-match"), request.headers.get("if-modified-since")):
        return Response(status_code=304, headers=headers)
    asked = request.headers.get("range") if may_resume(validators, request.headers.get("if-range")) else None
    try:
        span = parse_range(asked, ref.bytes)
    except RangeUnsatisfiable as error:
        no_range = {"accept-ranges": "bytes", "content-range": f"bytes */{ref.bytes}"}
        detail = f"The file has {ref.bytes} bytes."
        raise DoorError(FailureCode.INVALID_REQUEST, detail, param="Range", status=416, headers=no_range) from error
    whole = Span(0, ref.bytes)
    if span is not None:
        headers["content-range"] = span.format(ref.bytes)
    headers["content-length"] = str((span or whole).length)
    pieces = await _open(door.deps.store, ref, span or whole)
    return StreamingResponse(pieces, 200 if span is None else 206, headers, media_type=_MEDIA[variant][0])


@router.head(
    _PATH,
    operation_id="headVideoContent",
    summary="The file's length, type and entity tag",
    response_class=Response,
    responses=describe_errors(404, 409, 410) | {200: {"description": "As for GET, without the file"}},
)
async def head_content(
    job: str,
    request: Request,
    door: GivenDoor,
    caller: GivenCaller,
    *,
    variant: Annotated[Variant, Query()] = "video",
) -> Response:
    """What GET would say of the whole file."""
    record = (await load_job(door, caller, job)).record
    ref, validators, headers = _describe(record, variant)
    if is_unchanged(validators, request.headers.get("if-none-match"), request.headers.get("if-modified-since")):
        return Response(status_code=304, headers=headers)
    headers["content-length"] = str(ref.bytes)
    return Response(headers=headers, media_type=_MEDIA[variant][0])


def _describe(record: JobRecord, variant: Variant) -> tuple[ObjectRef, Validators, dict[str, str]]:
    """The object, what tells it from others, and the headers that every answer about it has."""
    ref = _find_object(record, variant)
    finished = record.times.finished
    validators = Validators(f'"{ref.sha256}"', finished.replace(microsecond=0) if finished else None)
    headers = {
        **_HEADERS,
        "etag": validators.etag,
        "content-disposition": f'inline; filename="{record.id}.{_MEDIA[variant][1]}"',
    }
    if validators.modified_text is not None:
        headers["last-modified"] = validators.modified_text
    return ref, validators, headers


def _find_object(record: JobRecord, variant: Variant) -> ObjectRef:
    if record.state is State.EXPIRED:
        raise VitascopeError(FailureCode.CONTENT_EXPIRED)
    if record.state is not State.SUCCEEDED:
        why = f"It is {record.state} and will have none." if record.is_terminal else f"It is {record.state}."
        headers = {} if record.is_terminal else {"retry-after": str(RETRY_AFTER_S)}
        raise DoorError(FailureCode.NOT_READY, why, headers=headers)
    ref = record.result.output if variant == "video" else record.result.thumbnail
    if ref is None:
        raise VitascopeError(FailureCode.NOT_FOUND, f"The job has no {variant}.")
    return ref


async def _open(store: ObjectStore, ref: ObjectRef, span: Span) -> AsyncIterator[bytes]:
    """The pieces of a span. The first is read before the answer starts, so that a lost file is a clear answer."""
    pieces = store.stream(ref.key, offset=span.start, length=span.length)
    try:
        first = await anext(pieces)
    except StopAsyncIteration as error:
        raise VitascopeError(FailureCode.OBJECT_CORRUPT) from error
    except VitascopeError as error:
        if error.code is FailureCode.OBJECT_MISSING:
            raise VitascopeError(FailureCode.CONTENT_EXPIRED) from error
        raise
    return _chain(first, pieces)


async def _chain(first: bytes, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """All pieces, one at a time in memory. An error breaks the connection off: the client sees too few bytes."""
    try:
        yield first
        async for piece in pieces:
            yield piece
    finally:
        close = getattr(pieces, "aclose", None)
        if close is not None:
            await close()
