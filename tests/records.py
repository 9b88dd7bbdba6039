"""Records for tests: a valid job in a chosen state, built through the product's own transitions."""

from collections.abc import Callable
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from vitascope.contracts import transitions
from vitascope.contracts.failures import Failure, FailureCode
from vitascope.contracts.flow import State
from vitascope.contracts.ids import make_job_id
from vitascope.contracts.jobs import Admission, Engine, JobRecord, ObjectRef, Result, VideoRequest

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ENGINE = Engine(fingerprint="f" * 64, versions={"torch": "0"}, dtype="float32", device="cpu", sampler="UniPC")


def object_ref(key: str = "latents/default/x", size: int = 3) -> ObjectRef:
    """A reference to an object that nobody has to find."""
    return ObjectRef(key=key, bytes=size, sha256="a" * 64)


RESULT = Result(output=object_ref("outputs/x"))


def video_request(**changes: Any) -> VideoRequest:
    """A request for the demo model's default clip."""
    wished: dict[str, Any] = {
        "tenant": "default",
        "model": "tiny-wan",
        "prompt": "a red circle moving right on a white background",
        "width": 64,
        "height": 64,
        "num_frames": 17,
        "fps": Fraction(8),
        "num_inference_steps": 20,
        "guidance_scale": 4.0,
        "seed": 7,
    }
    return VideoRequest(**wished | changes)


def queued_record(now: datetime = NOW, **changes: Any) -> JobRecord:
    """A job as it is accepted."""
    request = video_request(**changes)
    bucket = f"{request.width}x{request.height}_{request.num_frames}"
    admission = Admission(bucket=bucket, pool="default", group_size=1, estimated_gpu_s=1.0, price_units=1.0)
    return transitions.accept(make_job_id(now), request, admission, now=now)


def record_in(state: State, now: datetime = NOW, **changes: Any) -> JobRecord:
    """A job that reached a state on the shortest legal way."""
    record = queued_record(now, **changes)
    if state is State.CANCELLED:
        return transitions.cancel(record, now)
    steps: list[tuple[State, Callable[[JobRecord], JobRecord]]] = [
        (State.QUEUED, lambda r: r),
        (State.RUNNING, lambda r: transitions.start(r, "g0", now)),
        (State.DECODING, lambda r: _denoised(r, now)),
        (State.ENCODING, lambda r: transitions.finish_decode(r, 1, chunks=5, stage_s=1.0, now=now)),
        (State.SUCCEEDED, lambda r: transitions.succeed(r, 1, RESULT, stage_s=1.0, now=now)),
        (State.EXPIRED, lambda r: transitions.expire(r, now)),
    ]
    for reached, step in steps:
        if state is State.FAILED and reached is State.DECODING:
            return transitions.fail(record, 1, Failure.of(FailureCode.DENOISE_FAILED), now)
        record = step(record)
        if reached is state:
            return record
    raise AssertionError(f"no way to {state} here")


def _denoised(record: JobRecord, now: datetime) -> JobRecord:
    return transitions.finish_denoise(record, 1, latents=object_ref(), engine=ENGINE, gpu_s=1.0, stage_s=1.0, now=now)
