"""Videos made of videos: remix, edit, extend. And what no model here can: characters.

The clip that a video is made of is read like any reference, so the model gets it in the form in which it gets uploads.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from fastapi import APIRouter, Request, Response
from pydantic import JsonValue

from vitascope.admission import choose_model
from vitascope.admission.fields import echo, refuse
from vitascope.admission.rate import format_fps
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.jobs import JobRecord, ReferenceRole
from vitascope.contracts.models import ModelEntry, Task
from vitascope.ingress.caller import Caller, GivenCaller
from vitascope.ingress.creation import Accepted
from vitascope.ingress.door import Door, GivenDoor
from vitascope.ingress.errors import DoorError
from vitascope.ingress.openapi import describe_errors
from vitascope.ingress.references import ReferenceSource
from vitascope.ingress.submit import check_key
from vitascope.ingress.videos.create import IdempotencyKey, accept_video, answer_accepted
from vitascope.ingress.videos.lookup import load_video
from vitascope.ingress.videos.openapi import EDIT_EXTRA, REMIX_EXTRA, describe_video
from vitascope.ingress.videos.present import compute_status
from vitascope.ingress.videos.reading import Sent, make_wish, reading
from vitascope.ingress.videos.views import VideoView

CANNOT = 404
"""As if the route were not there, which is what clients of a service without it see."""
FIELD = "video"
_SPELLINGS = (
    frozenset({"size", "width", "height"}),
    frozenset({"num_frames", "frames", "seconds"}),
    frozenset({"num_inference_steps", "steps"}),
    frozenset({"guidance_scale", "guidance"}),
    frozenset({"video_codec_options", "quality"}),
)
"""Fields that say the same: one of them that is sent goes before all of the record's."""

router = APIRouter()


@router.post(
    "/v1/videos/{video}/remix",
    operation_id="remixVideo",
    summary="Make a video of a finished one (OpenAI)",
    openapi_extra=REMIX_EXTRA,
    responses=describe_errors(400, 404, 409, 413, 415, 429) | describe_video("The new video, queued"),
)
async def remix_video(
    video: str,
    request: Request,
    response: Response,
    *,
    door: GivenDoor,
    caller: GivenCaller,
    idempotency_key: IdempotencyKey = None,
) -> VideoView:
    """A new video from the pictures of a finished one and another prompt; what the request leaves out stays."""
    check_key(idempotency_key)
    record = await load_video(door, caller, video)
    async with reading(door, request, ()) as sent:
        accepted = await _make_of_record(door, caller, sent, record, key=idempotency_key, deed="remix")
    return answer_accepted(door, response, accepted)


@router.post(
    "/v1/videos/edits",
    operation_id="editVideo",
    summary="Make a video of another one (OpenAI)",
    openapi_extra=EDIT_EXTRA,
    responses=describe_errors(400, 404, 409, 413, 415, 429) | describe_video("The new video, queued"),
)
async def edit_video(
    request: Request,
    response: Response,
    door: GivenDoor,
    caller: GivenCaller,
    *,
    idempotency_key: IdempotencyKey = None,
) -> VideoView:
    """A new video from the pictures of an uploaded or a finished one, `video`, and a prompt."""
    return await _make_of_another(door, caller, request, response, key=idempotency_key, deed="edits")


@router.post(
    "/v1/videos/extensions",
    operation_id="extendVideo",
    summary="Make a longer video of another one (OpenAI)",
    openapi_extra=EDIT_EXTRA,
    responses=describe_errors(400, 404, 409, 413, 415, 429) | describe_video("The new video, queued"),
)
async def extend_video(
    request: Request,
    response: Response,
    door: GivenDoor,
    caller: GivenCaller,
    *,
    idempotency_key: IdempotencyKey = None,
) -> VideoView:
    """A longer video that begins as an uploaded or a finished one, `video`, if the model can."""
    return await _make_of_another(door, caller, request, response, key=idempotency_key, deed="extensions")


@router.post(
    "/v1/videos/characters",
    operation_id="createCharacter",
    summary="Not offered (OpenAI)",
    status_code=404,
    responses=describe_errors(404),
)
async def create_character() -> None:
    """No model of this service keeps characters."""
    raise _make_unable("No model of this service keeps characters.")


@router.get(
    "/v1/videos/characters/{character}",
    operation_id="getCharacter",
    summary="Not offered (OpenAI)",
    status_code=404,
    responses=describe_errors(404),
)
async def get_character(character: str) -> None:  # noqa: ARG001 (of the route)
    """No model of this service keeps characters."""
    raise _make_unable("No model of this service keeps characters.")


async def _make_of_another(
    door: Door, caller: Caller, request: Request, response: Response, *, key: str | None, deed: str
) -> VideoView:
    check_key(key)
    async with reading(door, request, {FIELD}) as sent:
        fields = {name: value for name, value in sent.body.items() if name != FIELD}
        given = sent.body.get(FIELD)
        if bool(sent.uploads) == (given is not None):
            raise refuse(FIELD, 'video is one file, or {"id": …} of a finished video.')
        if given is not None:
            record = await load_video(door, caller, _read_id(given))
            accepted = await _make_of_record(door, caller, Sent(fields), record, key=key, deed=deed)
        else:
            _check_able(choose_model(fields, door.deps.catalog.entries), deed)
            uploads = [replace(upload, field="video_reference") for upload in sent.uploads]
            body, wish = await make_wish(Sent(fields, uploads), deed)
            wish = replace(wish, sources=[replace(source, param=FIELD) for source in wish.sources])
            accepted = await accept_video(door, caller, body, key, wish=wish)
    return answer_accepted(door, response, accepted)


async def _make_of_record(
    door: Door, caller: Caller, sent: Sent, record: JobRecord, *, key: str | None, deed: str
) -> Accepted:
    """A job from the clip of another; what the request leaves out is as it was there."""
    fields = _repeat(record, sent.body)
    _check_able(choose_model(fields, door.deps.catalog.entries), deed)
    if record.result.output is None or compute_status(record) != "completed":
        raise VitascopeError(FailureCode.NOT_READY, f"It is {compute_status(record)}.", param=FIELD)
    body, wish = await make_wish(Sent(fields), f"{deed} of {record.id}")
    with door.disk.lease() as disk, TemporaryDirectory(prefix="remix-", dir=door.deps.references.folder) as folder:
        disk.take(record.result.output.bytes)
        path = Path(folder) / "video.mp4"
        await door.deps.store.get_file(record.result.output, path)
        source = ReferenceSource(FIELD, ReferenceRole.VIDEO, upload=path)
        full = replace(wish, sources=(*wish.sources, source), source_job=record.id)
        return await accept_video(door, caller, body, key, wish=full)


def _repeat(record: JobRecord, sent: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The fields of the new request: those that were sent, and of the others what the record has. The seed is new."""
    request = record.request
    earlier: dict[str, JsonValue] = {
        "model": request.model,
        "tier": request.tier.value,
        "size": f"{request.width}x{request.height}",
        "num_frames": request.num_frames,
        "fps": format_fps(request.fps),
        "num_inference_steps": request.num_inference_steps,
        "guidance_scale": request.guidance_scale,
        "guidance_scale_2": request.guidance_scale_2,
        "negative_prompt": request.negative_prompt or None,
        "video_codec_options": dict(request.video_codec_options) or None,
        "quality": record.admission.quality,
    }
    given = {name for name, value in sent.items() if value is not None}
    said = given | {name for names in _SPELLINGS if given & names for name in names}
    return {**{name: value for name, value in earlier.items() if value is not None and name not in said}, **sent}


def _read_id(given: JsonValue) -> str:
    """The id in `{"id": …}`, or the id itself."""
    found = given.get("id") if isinstance(given, dict) and set(given) == {"id"} else given
    if not isinstance(found, str):
        raise refuse(FIELD, f'video is a file, or {{"id": …}} of a finished video, not {echo(found)}.')
    return found


def _check_able(entry: ModelEntry, deed: str) -> None:
    can = entry.capabilities
    if not (can.max_videos and Task.V2V in entry.tasks) or (deed == "extensions" and not can.can_extend):
        raise _make_unable(f"{entry.name} does not make videos of videos in that way ({deed}).")


def _make_unable(detail: str) -> DoorError:
    return DoorError(FailureCode.CAPABILITY_MISSING, detail, status=CANNOT)
