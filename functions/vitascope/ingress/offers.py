"""`GET /v1/models` and `GET /v1/queue`: what is on offer, what waits, and who is there."""

from collections.abc import Sequence

from fastapi import APIRouter

from vitascope.admission.price import compute_gpu_s, compute_price_units
from vitascope.admission.rate import format_fps
from vitascope.contracts.flow import Stage, State
from vitascope.contracts.models import ModelEntry
from vitascope.contracts.pools import GroupRow
from vitascope.contracts.shapes import Bucket
from vitascope.ingress.caller import GivenCaller
from vitascope.ingress.door import Door, GivenDoor
from vitascope.ingress.estimate import compute_start, measure_step
from vitascope.ingress.openapi import describe_errors
from vitascope.ingress.views import BucketView, GroupView, ModelListView, ModelView, PoolView, QueueView

router = APIRouter()


@router.get("/v1/models", operation_id="listModels", summary="Models", responses=describe_errors())
async def list_models(door: GivenDoor) -> ModelListView:
    """Every model with its defaults, limits and shapes; the first is the default."""
    catalog = door.deps.catalog
    return ModelListView(data=[_present_model(door, entry) for entry in catalog.entries])


@router.get("/v1/queue", operation_id="getQueue", summary="The queue", responses=describe_errors())
async def get_queue(door: GivenDoor, caller: GivenCaller) -> QueueView:
    """Jobs by state, and the processes that are alive."""
    pools = dict.fromkeys(entry.pool for entry in door.deps.catalog.entries)
    return QueueView(
        jobs={state: door.jobs.count(state, caller.tenant) for state in State},
        pools=[_present_pool(door, pool) for pool in pools],
        groups=[
            GroupView(
                pool=row.pool,
                group=row.group,
                size=row.size,
                models=list(row.models),
                state=row.state,
                step_s=row.step_s,
            )
            for row in door.groups.list_alive()
        ],
    )


def _present_pool(door: Door, pool: str) -> PoolView:
    groups = door.groups.list_working(Stage.DENOISE, pool)
    place = door.jobs.foresee_place(pool)
    return PoolView(
        pool=pool,
        models=[entry.name for entry in door.deps.catalog.of_pool(pool)],
        queued=place.position - 1,
        running=door.jobs.count_running(pool),
        gpu_seconds_ahead=place.gpu_s_ahead,
        gpus=sum(row.size for row in groups),
        estimated_start=compute_start(place, groups, door.now),
    )


def _present_model(door: Door, entry: ModelEntry) -> ModelView:
    limits, defaults = entry.limits, entry.defaults
    groups = door.groups.list_working(Stage.DENOISE, entry.pool)
    return ModelView(
        id=entry.name,
        title=entry.title,
        is_default=entry is door.deps.catalog.default,
        tasks=[task.value for task in entry.tasks],
        has_sound=entry.has_sound,
        has_second_guidance=entry.has_second_guidance,
        capabilities=entry.capabilities,
        defaults={
            "width": defaults.width,
            "height": defaults.height,
            "num_frames": defaults.num_frames,
            "fps": format_fps(defaults.fps),
            "num_inference_steps": defaults.num_inference_steps,
            "guidance_scale": defaults.guidance_scale,
        },
        limits={
            "min_steps": limits.min_steps,
            "max_steps": limits.max_steps,
            "max_guidance": limits.max_guidance,
            "min_fps": format_fps(limits.min_fps),
            "max_fps": format_fps(limits.max_fps),
        },
        buckets=[_present_bucket(entry, bucket, groups) for bucket in entry.buckets],
    )


def _present_bucket(entry: ModelEntry, bucket: Bucket, groups: Sequence[GroupRow]) -> BucketView:
    steps = entry.defaults.num_inference_steps
    gpu_s, step_s = compute_gpu_s(entry, bucket, steps), measure_step(groups, entry.name, bucket.name)
    return BucketView(
        name=bucket.name,
        size=bucket.size,
        width=bucket.width,
        height=bucket.height,
        num_frames=bucket.num_frames,
        group_size=bucket.group_size,
        tokens=entry.geometry.compute_tokens(bucket.width, bucket.height, bucket.num_frames),
        estimated_gpu_seconds=gpu_s,
        price_units=compute_price_units(gpu_s),
        measured_step_s=step_s,
        measured_seconds=None if step_s is None else step_s * steps,
    )
