"""`GET /v1/video-jobs/{id}/content`: the file itself."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.flow import State
from vitascope.contracts.jobs import JobRecord
from vitascope.ingress.caller import GivenCaller
from vitascope.ingress.door import GivenDoor
from vitascope.ingress.errors import DoorError
from vitascope.ingress.files import FILE_ANSWERS, StoredFile, Variant, describe_file, head_file, serve_file
from vitascope.ingress.lookup import load_job
from vitascope.ingress.openapi import describe_errors

RETRY_AFTER_S = 2
"""When to ask again for a file that is not there yet: about as long as the last part of a short clip takes."""
_PATH = "/v1/video-jobs/{job}/content"

router = APIRouter()


@router.get(
    _PATH,
    operation_id="getVideoContent",
    summary="The file",
    response_class=Response,
    responses=describe_errors(404, 409, 410, 416) | FILE_ANSWERS,
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
    return await serve_file(door, request, _find_file((await load_job(door, caller, job)).record, variant))


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
    return head_file(request, _find_file((await load_job(door, caller, job)).record, variant))


def _find_file(record: JobRecord, variant: Variant) -> StoredFile:
    if record.state is State.EXPIRED:
        raise VitascopeError(FailureCode.CONTENT_EXPIRED)
    if record.state is not State.SUCCEEDED:
        why = f"It is {record.state} and will have none." if record.is_terminal else f"It is {record.state}."
        headers = {} if record.is_terminal else {"retry-after": str(RETRY_AFTER_S)}
        raise DoorError(FailureCode.NOT_READY, why, headers=headers)
    return describe_file(record, variant, disposition="inline")
