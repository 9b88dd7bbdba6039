"""A job's file as an answer: in any range, straight from the store, or a redirect to its signed URL."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Literal

from fastapi import Request, Response
from fastapi.responses import RedirectResponse, StreamingResponse

from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.jobs import JobRecord, ObjectRef
from vitascope.ingress.door import Door
from vitascope.ingress.errors import DoorError
from vitascope.ingress.ranges import RangeUnsatisfiable, Span, Validators, is_unchanged, may_resume, parse_range
from vitascope.runtime.ports import ObjectStore

Variant = Literal["video", "thumbnail", "spritesheet"]
_MEDIA = {
    "video": ("video/mp4", ".mp4"),
    "thumbnail": ("image/jpeg", ".jpg"),
    "spritesheet": ("image/jpeg", "-spritesheet.jpg"),
}
_HEADERS = {
    "accept-ranges": "bytes",
    "cache-control": "private, no-cache",  # a cache may keep it, and asks with the entity tag before it uses it
    # A browser that opens the address shows the file in a page of its own making.
    "content-security-policy": "default-src 'none'; media-src 'self'; img-src 'self'; style-src 'unsafe-inline'",
}
FILE_ANSWERS: dict[int | str, dict[str, Any]] = {  # OpenAPI: whatever JSON can say
    200: {"description": "The whole file", "content": {"video/mp4": {}, "image/jpeg": {}}},
    206: {"description": "The range that was asked for", "content": {"video/mp4": {}, "image/jpeg": {}}},
    304: {"description": "The client has it already"},
    307: {"description": "The file is at `Location`, where the service is set to say so"},
}


@dataclass(frozen=True)
class StoredFile:
    """An object of a job, what tells it from others, and the headers that every answer about it has."""

    ref: ObjectRef
    validators: Validators
    headers: dict[str, str]
    media_type: str


def describe_file(record: JobRecord, variant: Variant, *, disposition: Literal["inline", "attachment"]) -> StoredFile:
    """The file of a job that has succeeded.

    Raises:
        VitascopeError: `not_found`, the job has none of that kind.
    """
    refs = {
        "video": record.result.output,
        "thumbnail": record.result.thumbnail,
        "spritesheet": record.result.spritesheet,
    }
    ref = refs[variant]
    if ref is None:
        raise VitascopeError(FailureCode.NOT_FOUND, f"The job has no {variant}.")
    finished = record.times.finished
    validators = Validators(f'"{ref.sha256}"', finished.replace(microsecond=0) if finished else None)
    media_type, suffix = _MEDIA[variant]
    headers = {
        **_HEADERS,
        "etag": validators.etag,
        "content-disposition": f'{disposition}; filename="{record.id}{suffix}"',
    }
    if validators.modified_text is not None:
        headers["last-modified"] = validators.modified_text
    return StoredFile(ref, validators, headers, media_type)


def head_file(request: Request, file: StoredFile) -> Response:
    """What `serve_file` would say of the whole file."""
    if _is_known(request, file):
        return Response(status_code=304, headers=file.headers)
    return Response(headers={**file.headers, "content-length": str(file.ref.bytes)}, media_type=file.media_type)


async def serve_file(door: Door, request: Request, file: StoredFile) -> Response:
    """The file, the range of it that was asked for, or that the client has it already.

    Raises:
        VitascopeError: 416, the range is past its end; `content_expired`, the store no longer has it;
            `object_corrupt`; the store cannot be reached.
    """
    if _is_known(request, file):
        return Response(status_code=304, headers=file.headers)
    if door.deps.settings.content == "redirect":
        url, _ = await door.deps.signer.sign(file.ref)
        return RedirectResponse(url, 307, headers={"cache-control": "no-store"})
    size, headers = file.ref.bytes, dict(file.headers)
    asked = request.headers.get("range") if may_resume(file.validators, request.headers.get("if-range")) else None
    try:
        span = parse_range(asked, size)
    except RangeUnsatisfiable as error:
        no_range = {"accept-ranges": "bytes", "content-range": f"bytes */{size}"}
        detail = f"The file has {size} bytes."
        raise DoorError(FailureCode.INVALID_REQUEST, detail, param="Range", status=416, headers=no_range) from error
    whole = Span(0, size)
    if span is not None:
        headers["content-range"] = span.format(size)
    headers["content-length"] = str((span or whole).length)
    pieces = await open_object(door.deps.store, file.ref, span or whole)
    return StreamingResponse(pieces, 200 if span is None else 206, headers, media_type=file.media_type)


async def open_object(store: ObjectStore, ref: ObjectRef, span: Span) -> AsyncIterator[bytes]:
    """The pieces of a span. The first is read before the answer starts, so that a lost file is a clear answer.

    Raises:
        VitascopeError: as `serve_file`.
    """
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


def _is_known(request: Request, file: StoredFile) -> bool:
    return is_unchanged(file.validators, request.headers.get("if-none-match"), request.headers.get("if-modified-since"))


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
