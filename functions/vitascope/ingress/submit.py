"""`POST /v1/video-jobs`: accept a job."""

import re
from typing import Annotated

import structlog
from fastapi import APIRouter, Header, Request, Response
from pydantic import JsonValue

from vitascope.admission import compute_body_digest, parse_body
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.ingress.acceptance import Acceptor
from vitascope.ingress.body import read_json_bytes
from vitascope.ingress.caller import Caller, GivenCaller
from vitascope.ingress.creation import Accepted, Creator
from vitascope.ingress.door import Door, GivenDoor
from vitascope.ingress.media_fields import gather_media
from vitascope.ingress.openapi import SUBMIT_EXTRA, describe_errors
from vitascope.ingress.present import present_job
from vitascope.ingress.views import JobView
from vitascope.ingress.wishes import Wish

_KEY = re.compile(r"[\x20-\x7e]{1,255}")

router = APIRouter()
log = structlog.get_logger(__name__)


@router.post(
    "/v1/video-jobs",
    status_code=202,
    operation_id="createVideoJob",
    summary="Make a video",
    openapi_extra=SUBMIT_EXTRA,
    responses=describe_errors(400, 404, 409, 413, 415, 429),
)
async def create_job(
    request: Request,
    response: Response,
    door: GivenDoor,
    caller: GivenCaller,
    *,
    idempotency_key: Annotated[
        str | None,
        Header(description="1 to 255 printable ASCII characters; the same key and body give the same job"),
    ] = None,
) -> JobView:
    """Accept a job. Once the answer is out, no crash of any part loses it."""
    check_key(idempotency_key)
    body = parse_body(await read_json_bytes(request, door.deps.settings.max_body_bytes))
    media = gather_media(body)
    wish = Wish(sources=media.sources, digest=compute_body_digest(body))
    accepted = await accept_job(door, caller, media.body, idempotency_key, wish=wish)
    record = accepted.stamped.record
    response.headers["location"] = f"/v1/video-jobs/{record.id}"
    if accepted.is_replay:
        response.headers["idempotency-replayed"] = "true"
    return await present_job(door, record)


def check_key(idempotency_key: str | None) -> None:
    """Refuse a key that is none.

    Raises:
        VitascopeError: `invalid_request`.
    """
    if idempotency_key is not None and _KEY.fullmatch(idempotency_key) is None:
        detail = "Idempotency-Key has 1 to 255 printable ASCII characters."
        raise VitascopeError(FailureCode.INVALID_REQUEST, detail, param="Idempotency-Key")


async def accept_job(
    door: Door, caller: Caller, body: dict[str, JsonValue], key: str | None, *, wish: Wish
) -> Accepted:
    """Accept the caller's job; errors as of `Acceptor.accept`."""
    accepted = await _make_acceptor(door).accept(caller.tenant, body, key, wish=wish)
    record = accepted.stamped.record
    log.info(
        "job accepted",
        job=record.id,
        stage="ingress",
        attempt=record.run.attempt,
        model=record.request.model,
        bucket=record.admission.bucket,
        is_replay=accepted.is_replay,
    )
    return accepted


def _make_acceptor(door: Door) -> Acceptor:
    deps = door.deps
    return Acceptor(
        deps.catalog,
        Creator(deps.ledger, deps.store, door.jobs),
        completeness=deps.completeness,
        clock=deps.clock,
        rng=deps.rng,
        limits=door.limits,
        screen=deps.prompt_screen,
        reader=deps.references,
        addresses=deps.addresses,
    )
