"""`POST /v1/videos`: accept a video."""

from typing import Annotated

from fastapi import APIRouter, Header, Request, Response
from pydantic import JsonValue

from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.ingress.caller import Caller, GivenCaller
from vitascope.ingress.creation import Accepted
from vitascope.ingress.door import Door, GivenDoor
from vitascope.ingress.errors import DoorError
from vitascope.ingress.openapi import describe_errors
from vitascope.ingress.submit import accept_job, check_key
from vitascope.ingress.videos.openapi import CREATE_EXTRA, describe_video
from vitascope.ingress.videos.present import make_headers, present_video
from vitascope.ingress.videos.reading import make_wish, reading
from vitascope.ingress.videos.views import VideoView
from vitascope.ingress.wishes import Wish

DEED = "create"
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        description="1 to 255 printable ASCII characters; the same key and request give the same video",
    ),
]

router = APIRouter()


@router.post(
    "/v1/videos",
    operation_id="createVideo",
    summary="Make a video (OpenAI)",
    openapi_extra=CREATE_EXTRA,
    responses=describe_errors(400, 409, 413, 415, 429) | describe_video("The video, queued"),
)
async def create_video(
    request: Request,
    response: Response,
    door: GivenDoor,
    caller: GivenCaller,
    *,
    idempotency_key: IdempotencyKey = None,
) -> VideoView:
    """Accept a video. Once the answer is out, no crash of any part loses it."""
    check_key(idempotency_key)
    async with reading(door, request) as sent:
        body, wish = await make_wish(sent, DEED)
        accepted = await accept_video(door, caller, body, idempotency_key, wish=wish)
    return answer_accepted(door, response, accepted)


async def accept_video(
    door: Door, caller: Caller, body: dict[str, JsonValue], key: str | None, *, wish: Wish
) -> Accepted:
    """Accept the caller's video; here a model that is unknown is a wrong field, 400, as every other.

    Raises:
        VitascopeError: as `Acceptor.accept`.
    """
    try:
        return await accept_job(door, caller, body, key, wish=wish)
    except VitascopeError as error:
        if error.code is not FailureCode.MODEL_NOT_FOUND:
            raise
        raise DoorError(error.code, error.detail, param=error.param, status=400) from error


def answer_accepted(door: Door, response: Response, accepted: Accepted) -> VideoView:
    """The record of a video that was accepted, and the headers that go with it."""
    record = accepted.stamped.record
    response.headers["location"] = f"/v1/videos/{record.id}"
    response.headers.update(make_headers(door, record))
    if accepted.is_replay:
        response.headers["idempotency-replayed"] = "true"
    return present_video(door, record)
