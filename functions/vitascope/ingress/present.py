"""From a record to what clients see."""

from datetime import datetime

from vitascope.admission.rate import format_fps
from vitascope.contracts.events import Progress
from vitascope.contracts.expiry import compute_expiry
from vitascope.contracts.flow import STAGE_OF, Stage, State
from vitascope.contracts.jobs import JobRecord
from vitascope.contracts.shapes import compute_duration_s
from vitascope.ingress.door import Door
from vitascope.ingress.estimate import compute_start, explain_wait
from vitascope.ingress.request_views import compute_abilities, present_reference
from vitascope.ingress.views import JobErrorView, JobView, ResultView


async def present_job(door: Door, record: JobRecord) -> JobView:
    """The job with its place in the queue, its newest progress and, once it has succeeded, fresh signed URLs."""
    request, run, times = record.request, record.run, record.times
    position, start, reason = _present_wait(door, record)
    stage, progress = find_progress(door, record)
    return JobView(
        id=record.id,
        status=record.state,
        model=request.model,
        task=request.task,
        tier=request.tier,
        labels=request.labels,
        prompt=request.prompt,
        negative_prompt=request.negative_prompt,
        width=request.width,
        height=request.height,
        num_frames=request.num_frames,
        fps=format_fps(request.fps),
        duration_s=float(compute_duration_s(request.num_frames, request.fps)),
        num_inference_steps=request.num_inference_steps,
        guidance_scale=request.guidance_scale,
        seed=request.seed,
        references=[present_reference(reference) for reference in request.references],
        source_job=request.source_job,
        **compute_abilities(request),
        estimated_gpu_seconds=record.admission.estimated_gpu_s,
        price_units=record.admission.price_units,
        billed_units=record.result.billed_units,
        queue_position=position,
        estimated_start=start,
        start_deadline=run.start_deadline,
        callback_url=record.admission.callback_url,
        retry_of=record.retry_of,
        retried_as=door.jobs.find_retry(record.id),
        attempt=run.attempt,
        preempt_requested=run.preempt_requested,
        preemptions=run.preemptions,
        restart_reason=run.restarted,
        stage=stage,
        step=progress.step if progress else _count_steps(record),
        steps=progress.steps if progress else run.steps,
        step_s=progress.step_s if progress else None,
        remaining_s=progress.remaining_s if progress else None,
        reason=reason,
        created_at=times.created,
        started_at=times.started,
        first_step_at=times.first_step,
        denoised_at=times.denoised,
        decoded_at=times.decoded,
        encoded_at=times.encoded,
        finished_at=times.finished,
        expires_at=compute_expiry(record, door.deps.retention),
        result=await _present_result(door, record),
        error=_present_error(record),
    )


def find_progress(door: Door, record: JobRecord) -> tuple[Stage | None, Progress | None]:
    """The stage that works on the job, and its newest progress if any has come."""
    stage = STAGE_OF.get(record.state)
    return stage, door.progress.find(record.id, record.run.attempt, stage) if stage else None


def _count_steps(record: JobRecord) -> int:
    """Steps that are safe; a decode or encode that has not been heard of has done nothing yet."""
    return 0 if record.state in {State.DECODING, State.ENCODING} else record.run.step


def _present_wait(door: Door, record: JobRecord) -> tuple[int | None, datetime | None, str | None]:
    """Queue position, expected start, and why the job waits or ended."""
    place = door.jobs.find_place(record.id) if record.state is State.QUEUED else None
    if place is None:
        return None, None, record.run.reason
    pool = record.admission.pool
    groups = door.groups.list_working(Stage.DENOISE, pool)
    reasons = (record.run.reason, explain_wait(place, groups, pool))
    return place.position, compute_start(place, groups, door.now), " ".join(filter(None, reasons))


async def _present_result(door: Door, record: JobRecord) -> ResultView | None:
    result, request = record.result, record.request
    if record.state is not State.SUCCEEDED or result.output is None:
        return None
    video_url, expires = await door.deps.signer.sign(result.output)
    thumbnail_url, spritesheet_url = [
        (await door.deps.signer.sign(still))[0] if still else None for still in (result.thumbnail, result.spritesheet)
    ]
    num_frames, fps = result.num_frames or request.num_frames, result.fps or request.fps
    return ResultView(
        video_url=video_url,
        thumbnail_url=thumbnail_url,
        spritesheet_url=spritesheet_url,
        urls_expire_at=min(filter(None, (expires, compute_expiry(record, door.deps.retention)))),
        content_path=f"/v1/video-jobs/{record.id}/content",
        bytes=result.output.bytes,
        sha256=result.output.sha256,
        width=request.width,
        height=request.height,
        num_frames=num_frames,
        fps=format_fps(fps),
        duration_s=result.duration_s or float(compute_duration_s(num_frames, fps)),
        has_audio=result.has_audio,
        actual_gpu_seconds=result.actual_gpu_s,
        engine=result.engine,
        stage_seconds=result.stage_s,
    )


def _present_error(record: JobRecord) -> JobErrorView | None:
    failure = record.run.failure
    if failure is None:
        return None
    return JobErrorView(code=failure.code, message=failure.message, stage=failure.stage)
