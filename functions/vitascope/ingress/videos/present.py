"""From a record to what clients of this API see."""

import math
from fractions import Fraction

from pydantic import JsonValue

from vitascope.contracts.events import Progress
from vitascope.contracts.expiry import compute_expiry
from vitascope.contracts.failures import FAILURES, FailureCode
from vitascope.contracts.flow import TERMINAL, State
from vitascope.contracts.jobs import JobRecord
from vitascope.contracts.shapes import compute_duration_s
from vitascope.ingress.door import Door
from vitascope.ingress.present import find_progress
from vitascope.ingress.videos.views import VideoErrorView, VideoStatus, VideoView

POLL_HEADER = "openai-poll-after-ms"
MIN_POLL_MS, MAX_POLL_MS = 500, 5_000
QUEUE_POLL_MS = 1_000
"""For each place in the queue."""
POLLS_PER_WAIT = 4
"""So often a client asks in the time that is left, if that is known."""
_SHARES = {State.RUNNING: (0, 90), State.DECODING: (90, 95), State.ENCODING: (95, 99)}
"""Percent of the whole at the beginning and at the end of each stage: denoising is nearly all of it."""


def present_video(door: Door, record: JobRecord) -> VideoView:
    """The video with its newest progress."""
    request, result, times = record.request, record.result, record.times
    status = compute_status(record)
    num_frames, fps = result.num_frames or request.num_frames, result.fps or request.fps
    expires = compute_expiry(record, door.deps.retention)
    waited_s = (times.finished - times.created).total_seconds() if times.finished is not None else None
    return VideoView(
        id=record.id,
        status=status,
        model=request.model,
        prompt=request.prompt,
        size=f"{request.width}x{request.height}",
        seconds=format_seconds(num_frames, fps),
        quality=record.admission.quality or "default",
        progress=compute_progress(record, find_progress(door, record)[1]),
        seed=request.seed,
        created_at=math.floor(times.created.timestamp()),
        completed_at=math.floor(times.finished.timestamp()) if times.finished is not None else None,
        expires_at=math.floor(expires.timestamp()) if expires is not None else None,
        remixed_from_video_id=request.source_job,
        error=_present_error(record) if status == "failed" else None,
        file_name=f"{record.id}.mp4" if status == "completed" else None,
        inference_time_s=waited_s,
        fps=float(fps),
        num_frames=num_frames,
        duration_s=result.duration_s or float(compute_duration_s(num_frames, fps)),
        metrics=_present_metrics(record),
        stage_durations=result.stage_s,
        peak_memory_mb=0.0,
        action=None,
    )


def compute_status(record: JobRecord) -> VideoStatus:
    """The state in this API's four words; one that a group gave up for a while is still in progress."""
    if record.state is State.SUCCEEDED:
        return "completed"
    if record.state in TERMINAL:
        return "failed"
    return "queued" if record.times.started is None else "in_progress"


def compute_progress(record: JobRecord, progress: Progress | None) -> int:
    """Percent of the whole that is done, 100 once the file is there."""
    if record.state is State.SUCCEEDED:
        return 100
    low, high = _SHARES.get(record.state, _SHARES[State.RUNNING])
    is_denoise = low == 0
    done = record.run.step / record.run.steps if is_denoise and record.run.steps else 0.0
    if progress is not None and progress.steps:
        done = max(done, progress.step / progress.steps)
    return low + math.floor(min(done, 1.0) * (high - low))


def compute_poll_ms(record: JobRecord, progress: Progress | None, position: int) -> int:
    """When to ask again, in milliseconds: sooner the less there is left, and the fewer jobs are ahead."""
    if record.state is State.RUNNING and progress is not None and progress.remaining_s is not None:
        wait_ms = math.ceil(progress.remaining_s * 1000 / POLLS_PER_WAIT)
    else:
        wait_ms = QUEUE_POLL_MS * position if record.state is State.QUEUED else MIN_POLL_MS
    return min(max(wait_ms, MIN_POLL_MS), MAX_POLL_MS)


def make_headers(door: Door, record: JobRecord) -> dict[str, str]:
    """The headers of an answer that shows a video: of one that is not ready, when to ask again."""
    if record.is_terminal:
        return {}
    place = door.jobs.find_place(record.id)
    poll_ms = compute_poll_ms(record, find_progress(door, record)[1], place.position if place is not None else 1)
    return {POLL_HEADER: str(poll_ms)}


def format_seconds(num_frames: int, fps: Fraction) -> str:
    """The length as users count it: 81 frames at 16 a second are "5", 5 s and the frame that ends them."""
    exact, gaps = num_frames / fps, (num_frames - 1) / fps
    whole = next((length for length in (exact, gaps) if length.denominator == 1 and length > 0), None)
    return str(whole) if whole is not None else f"{float(exact):.3f}".rstrip("0").rstrip(".")


def _present_error(record: JobRecord) -> VideoErrorView:
    failure = record.run.failure
    if failure is not None:
        return VideoErrorView(code=failure.code, message=failure.message)
    code = FailureCode.CONTENT_EXPIRED if record.state is State.EXPIRED else FailureCode.CANCELLED
    return VideoErrorView(code=code, message=FAILURES[code].sentence)


def _present_metrics(record: JobRecord) -> dict[str, JsonValue] | None:
    if not record.admission.wants_metrics or record.times.finished is None:
        return None
    times, result = record.times, record.result
    queued_s = (times.started - times.created).total_seconds() if times.started is not None else None
    stages: dict[str, JsonValue] = dict(result.stage_s)
    return {"queue_s": queued_s, "gpu_s": result.actual_gpu_s, "stage_s": stages, "attempts": record.run.attempt}
