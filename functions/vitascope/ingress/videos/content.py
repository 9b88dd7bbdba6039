"""`GET /v1/videos/{video}/content`: the file, a still of it, or frames of it in one picture."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from vitascope.contracts.failures import FAILURES, FailureCode, VitascopeError
from vitascope.contracts.jobs import JobRecord
from vitascope.ingress.caller import GivenCaller
from vitascope.ingress.door import GivenDoor
from vitascope.ingress.errors import DoorError, raise_not_found
from vitascope.ingress.files import FILE_ANSWERS, StoredFile, Variant, describe_file, head_file, serve_file
from vitascope.ingress.openapi import describe_errors
from vitascope.ingress.videos.lookup import load_video
from vitascope.ingress.videos.present import compute_status, make_headers

_PATH = "/v1/videos/{video}/content"
NOT_READY, FAILED = 404, 422

router = APIRouter()


@router.get(
    _PATH,
    operation_id="downloadVideo",
    summary="The file (OpenAI)",
    response_class=Response,
    responses=describe_errors(400, 404, 416, 422) | FILE_ANSWERS,
)
async def download_video(
    video: str,
    request: Request,
    door: GivenDoor,
    caller: GivenCaller,
    *,
    variant: Annotated[Variant, Query()] = "video",
) -> Response:
    """The file of a completed video. `Range`, `If-Range`, `If-None-Match` and `If-Modified-Since` work."""
    record = await load_video(door, caller, video)
    _check_ready(record, make_headers(door, record))
    try:
        return await serve_file(door, request, _describe(record, variant))
    except VitascopeError as error:
        if error.code is not FailureCode.CONTENT_EXPIRED:
            raise
        raise_not_found("The file has expired.")


@router.head(
    _PATH,
    operation_id="headVideo",
    summary="The file's length, type and entity tag (OpenAI)",
    response_class=Response,
    responses=describe_errors(400, 404, 422) | {200: {"description": "As for GET, without the file"}},
)
async def head_video(
    video: str,
    request: Request,
    door: GivenDoor,
    caller: GivenCaller,
    *,
    variant: Annotated[Variant, Query()] = "video",
) -> Response:
    """What GET would say of the whole file."""
    record = await load_video(door, caller, video)
    _check_ready(record, make_headers(door, record))
    return head_file(request, _describe(record, variant))


def _check_ready(record: JobRecord, headers: dict[str, str]) -> None:
    """Refuse what has no file: not yet is 404, since clients try 409 again by themselves; never is 422."""
    status = compute_status(record)
    if status == "failed":
        failure = record.run.failure
        why = failure.message if failure is not None else FAILURES[FailureCode.CANCELLED].sentence
        raise DoorError(FailureCode.NOT_READY, f"It failed and will have none: {why}", status=FAILED)
    if status != "completed":
        raise DoorError(FailureCode.NOT_READY, f"It is {status}.", status=NOT_READY, headers=headers)


def _describe(record: JobRecord, variant: Variant) -> StoredFile:
    return describe_file(record, variant, disposition="attachment")
