"""`POST /v1/video-jobs/estimate`: what a job would cost and when it would start, without making one."""

from typing import Literal

from fastapi import APIRouter, Request
from pydantic import AwareDatetime, Field, JsonValue

from vitascope.admission import Admitted, admit, check_known, check_together, choose_model, parse_body
from vitascope.admission.capabilities import MEDIA_FIELDS
from vitascope.admission.rate import format_fps
from vitascope.contracts.flow import Stage
from vitascope.contracts.frozen import Frozen
from vitascope.contracts.jobs import ObjectRef, Reference, ReferenceRole, Tier
from vitascope.contracts.models import ModelEntry, Task
from vitascope.contracts.shapes import compute_duration_s
from vitascope.ingress.body import read_json_bytes
from vitascope.ingress.caller import GivenCaller
from vitascope.ingress.door import Door, GivenDoor
from vitascope.ingress.estimate import compute_start, explain_wait, measure_step
from vitascope.ingress.openapi import SUBMIT_EXTRA, describe_errors
from vitascope.ingress.views import Rate

_LOOK_OF = {
    Task.I2V: ReferenceRole.IMAGE,
    Task.V2V: ReferenceRole.VIDEO,
    Task.S2V: ReferenceRole.AUDIO,
    Task.CONTROL: ReferenceRole.CONTROL,
}
_NO_OBJECT = ObjectRef(key="", bytes=0, sha256="0" * 64)

router = APIRouter()


class EstimateView(Frozen):
    """What a job would be. Another one that is sent first changes its place."""

    object: Literal["video.job.estimate"] = "video.job.estimate"
    model: str
    tier: Tier
    width: int = Field(description="pixels")
    height: int = Field(description="pixels")
    num_frames: int
    fps: Rate
    duration_s: float
    num_inference_steps: int
    bucket: str
    group_size: int = Field(description="GPUs that would work on the clip")
    estimated_gpu_seconds: float = Field(description="GPU-seconds of denoising, which the price is made of")
    price_units: float
    measured_step_s: float | None = Field(description="seconds a step takes at the groups that are alive, if known")
    denoise_seconds: float = Field(description="from the first step to the last: measured, or from the cost model")
    queue_position: int = Field(description="1 is next")
    estimated_start: AwareDatetime | None = Field(description="null if no group is there to tell")
    reason: str = Field(description="why it would wait, in words")


@router.post(
    "/v1/video-jobs/estimate",
    operation_id="estimateVideoJob",
    summary="Price and start of a job, without making it",
    openapi_extra=SUBMIT_EXTRA,
    responses=describe_errors(400, 404, 413, 415),
)
async def estimate_job(request: Request, door: GivenDoor, caller: GivenCaller) -> EstimateView:
    """The price and the place in the queue of a body as `POST /v1/video-jobs` takes it, refused alike.

    Media is not fetched or looked at, limits of the tenant are not asked for, and nothing is kept.
    """
    body = parse_body(await read_json_bytes(request, door.deps.settings.max_body_bytes))
    entry = choose_model(body, door.deps.catalog.entries)
    return _present(door, entry, _admit_without_media(door, body, entry, caller.tenant))


def _admit_without_media(door: Door, body: dict[str, JsonValue], entry: ModelEntry, tenant: str) -> Admitted:
    """The body as it would be admitted with any media that the model takes: media has no part in the price."""
    check_known(body, entry)
    check_together([name for name, value in body.items() if value is not None])
    plain = {name: value for name, value in body.items() if name not in MEDIA_FIELDS and name != "control_type"}
    look = None if Task.T2V in entry.tasks else _LOOK_OF.get(entry.tasks[0])
    stand_ins = () if look is None else (Reference(role=look, object=_NO_OBJECT, media_type=""),)
    return admit(plain, entry, tenant=tenant, now=door.now, drawn_seed=0, references=stand_ins)


def _present(door: Door, entry: ModelEntry, admitted: Admitted) -> EstimateView:
    request, admission = admitted.request, admitted.admission
    groups = door.groups.list_working(Stage.DENOISE, entry.pool)
    place = door.jobs.foresee_place(entry.pool)
    step_s = measure_step(groups, entry.name, admission.bucket)
    modelled_s = admission.estimated_gpu_s / admission.group_size
    return EstimateView(
        model=entry.name,
        tier=request.tier,
        width=request.width,
        height=request.height,
        num_frames=request.num_frames,
        fps=format_fps(request.fps),
        duration_s=float(compute_duration_s(request.num_frames, request.fps)),
        num_inference_steps=request.num_inference_steps,
        bucket=admission.bucket,
        group_size=admission.group_size,
        estimated_gpu_seconds=admission.estimated_gpu_s,
        price_units=admission.price_units,
        measured_step_s=step_s,
        denoise_seconds=modelled_s if step_s is None else step_s * request.num_inference_steps,
        queue_position=place.position,
        estimated_start=compute_start(place, groups, door.now),
        reason=explain_wait(place, groups, entry.pool),
    )
