"""What clients see: the bodies of answers. Field names of requests are names of answers, with the same meaning."""

from typing import Literal

from pydantic import AwareDatetime, Field, JsonValue

from vitascope.contracts.failures import FailureCode
from vitascope.contracts.flow import Stage, State
from vitascope.contracts.frozen import Frozen
from vitascope.contracts.jobs import Engine, ReferenceRole, Sha256, Tier
from vitascope.contracts.models import Capabilities, Task
from vitascope.contracts.pools import GroupState

Rate = int | str

# A value of its own: FastAPI would drop every null from an example that stands in the schema.
EXAMPLE_JOB: dict[str, JsonValue] = {
    "id": "vj_01KDVDNA00W52FRFC30J36F36P",
    "object": "video.job",
    "status": "running",
    "model": "tiny-wan",
    "task": "t2v",
    "tier": "standard",
    "labels": {"project": "demo"},
    "prompt": "a red circle moving right on a white background",
    "negative_prompt": "",
    "width": 64,
    "height": 64,
    "num_frames": 17,
    "fps": 8,
    "duration_s": 2.125,
    "num_inference_steps": 20,
    "guidance_scale": 4.0,
    "guidance_scale_2": None,
    "true_cfg_scale": None,
    "flow_shift": None,
    "boundary_ratio": None,
    "seed": 7,
    "generate_sound": False,
    "sound_duration": None,
    "references": [],
    "control_type": None,
    "source_job": None,
    "lora": None,
    "enable_frame_interpolation": False,
    "frame_interpolation_exp": None,
    "frame_interpolation_scale": None,
    "video_codec_options": {},
    "extra_params": {},
    "estimated_gpu_seconds": 0.98,
    "price_units": 0.98,
    "billed_units": 0.0,
    "queue_position": None,
    "estimated_start": None,
    "start_deadline": None,
    "callback_url": None,
    "retry_of": None,
    "retried_as": None,
    "attempt": 1,
    "preempt_requested": False,
    "preemptions": 0,
    "restart_reason": None,
    "stage": "denoise",
    "step": 12,
    "steps": 20,
    "step_s": 0.049,
    "remaining_s": 0.392,
    "reason": None,
    "created_at": "2026-01-01T00:00:00Z",
    "started_at": "2026-01-01T00:00:01Z",
    "first_step_at": "2026-01-01T00:00:02Z",
    "denoised_at": None,
    "decoded_at": None,
    "encoded_at": None,
    "finished_at": None,
    "expires_at": None,
    "result": None,
    "error": None,
}

EXAMPLE_RETRY: dict[str, JsonValue] = {
    **EXAMPLE_JOB,
    "id": "vj_01KDVDNA00W52FRFC30J36F36Q",
    "status": "decoding",
    "retry_of": "vj_01KDVDNA00W52FRFC30J36F36P",
    "stage": "decode",
    "step": 0,
    "step_s": None,
    "remaining_s": None,
    "reason": "Retry of vj_01KDVDNA00W52FRFC30J36F36P: its latents are kept, so it starts at decode.",
    "first_step_at": None,
}


class ResultView(Frozen):
    """The finished video."""

    video_url: str = Field(description="signed: opens without a key until `urls_expire_at`; ask again for a new one")
    thumbnail_url: str | None
    spritesheet_url: str | None
    urls_expire_at: AwareDatetime
    content_path: str = Field(description="the same file at this service, with the API key")
    bytes: int
    sha256: Sha256
    width: int = Field(description="pixels")
    height: int = Field(description="pixels")
    num_frames: int = Field(description="frames in the file")
    fps: Rate = Field(description='frames a second in the file: a whole number, or a ratio such as "24000/1001"')
    duration_s: float
    has_audio: bool
    actual_gpu_seconds: float
    engine: Engine | None
    stage_seconds: dict[str, float] = Field(description="seconds each stage worked")


class JobErrorView(Frozen):
    """Why a job failed."""

    code: FailureCode
    message: str
    stage: str | None


class ReferenceView(Frozen):
    """A piece of media that the job starts from, as it was stored."""

    role: ReferenceRole
    media_type: str
    bytes: int
    sha256: Sha256
    width: int | None = Field(description="pixels, upright")
    height: int | None = Field(description="pixels, upright")
    num_frames: int | None
    duration_s: float | None


class JobView(Frozen):
    """A job as it is at this moment."""

    id: str
    object: Literal["video.job"] = "video.job"
    status: State
    model: str
    task: Task = Field(description="what the references make of the request")
    tier: Tier
    labels: dict[str, str]
    # what is made
    prompt: str
    negative_prompt: str
    width: int = Field(description="pixels")
    height: int = Field(description="pixels")
    num_frames: int
    fps: Rate = Field(description='frames a second, exact: a whole number, or a ratio such as "24000/1001"')
    duration_s: float = Field(description="frames / fps")
    num_inference_steps: int
    guidance_scale: float
    guidance_scale_2: float | None
    true_cfg_scale: float | None
    flow_shift: float | None
    boundary_ratio: float | None
    seed: int = Field(description="drawn if the request had none")
    generate_sound: bool
    sound_duration: float | None = Field(description="seconds")
    references: list[ReferenceView]
    control_type: str | None
    source_job: str | None = Field(description="the finished job whose video this one started from")
    lora: dict[str, JsonValue] | None
    enable_frame_interpolation: bool
    frame_interpolation_exp: int | None
    frame_interpolation_scale: float | None
    video_codec_options: dict[str, JsonValue]
    extra_params: dict[str, JsonValue]
    # what it costs, and when it starts
    estimated_gpu_seconds: float = Field(description="GPU-seconds of denoising")
    price_units: float = Field(description="GPU-seconds, rounded up to a hundredth")
    billed_units: float = Field(description="what is charged: the price of a video that came out, else nothing")
    queue_position: int | None = Field(description="1 is next; null unless queued")
    estimated_start: AwareDatetime | None = Field(description="null unless queued, or if no group is there to tell")
    start_deadline: AwareDatetime | None
    callback_url: str | None = Field(description="where the events of this job are posted")
    # where it is
    retry_of: str | None = Field(description="the failed job that this one goes on with")
    retried_as: str | None = Field(description="the job that goes on with this failed one; it comes within moments")
    attempt: int = Field(description="rises with each start of denoising; far after a loss of the ledger")
    preempt_requested: bool = Field(description="whether denoising is about to give up its GPU group")
    preemptions: int = Field(description="how often it gave up its GPU group so far")
    restart_reason: str | None = Field(description="why steps that had been made were made again, if they were")
    stage: Stage | None = Field(description="what is being done; null while the job waits and once it has ended")
    step: int = Field(description="units of the stage that are done: steps of denoise, frames of decode and encode")
    steps: int = Field(description="units of the stage in all")
    step_s: float | None = Field(description="seconds a unit takes")
    remaining_s: float | None = Field(description="seconds that the stage still needs")
    reason: str | None = Field(description="why the job waits or has ended, in words")
    created_at: AwareDatetime
    started_at: AwareDatetime | None
    first_step_at: AwareDatetime | None
    denoised_at: AwareDatetime | None
    decoded_at: AwareDatetime | None
    encoded_at: AwareDatetime | None
    finished_at: AwareDatetime | None
    expires_at: AwareDatetime | None = Field(description="when the files of an ended job go, or went")
    # what came out
    result: ResultView | None
    error: JobErrorView | None


class JobListView(Frozen):
    """A page of jobs."""

    object: Literal["list"] = "list"
    data: list[JobView]
    first_id: str | None
    last_id: str | None = Field(description="send it as `after` to get the next page")
    has_more: bool


class BucketView(Frozen):
    """A shape that a model makes, with its cost at the model's default number of steps."""

    name: str
    size: str
    width: int = Field(description="pixels")
    height: int = Field(description="pixels")
    num_frames: int
    group_size: int = Field(description="GPUs that work on one clip")
    tokens: int = Field(description="length of the transformer's sequence")
    estimated_gpu_seconds: float
    price_units: float
    measured_step_s: float | None = Field(description="seconds a step takes at the groups that are alive, if known")
    measured_seconds: float | None = Field(description="the same for the model's default number of steps")


class ModelView(Frozen):
    """A model with its defaults, limits and shapes."""

    id: str
    object: Literal["model"] = "model"
    title: str
    is_default: bool
    tasks: list[str]
    has_sound: bool
    has_second_guidance: bool
    capabilities: Capabilities = Field(description="what a request may ask for beyond text and numbers")
    defaults: dict[str, JsonValue]
    limits: dict[str, JsonValue]
    buckets: list[BucketView]


class ModelListView(Frozen):
    """All models."""

    object: Literal["list"] = "list"
    data: list[ModelView]


class GroupView(Frozen):
    """A process that is alive: a denoise group, or a decode or encode process under `decode-` or `encode-` its pool."""

    pool: str
    group: str
    size: int = Field(description="GPUs")
    models: list[str]
    state: GroupState
    step_s: dict[str, float] = Field(description="measured seconds a step, by bucket")


class PoolView(Frozen):
    """What waits in a pool of GPU groups, whosever it is."""

    pool: str
    models: list[str] = Field(description="the models that it serves")
    queued: int
    running: int
    gpu_seconds_ahead: float = Field(description="estimated work before a job that is sent now")
    gpus: int = Field(description="of the groups that are alive and do not drain")
    estimated_start: AwareDatetime | None = Field(description="of a job that is sent now; null if no group is there")


class QueueView(Frozen):
    """What waits, what runs, and who is there to do it."""

    object: Literal["queue"] = "queue"
    jobs: dict[State, int] = Field(description="the caller's jobs by state")
    pools: list[PoolView]
    groups: list[GroupView]
