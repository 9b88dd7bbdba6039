"""The job record: everything that is known of a job, in one small versioned document."""

from enum import StrEnum
from fractions import Fraction
from typing import Annotated

from pydantic import AwareDatetime, Field, JsonValue, StringConstraints

from vitascope.contracts.failures import Failure
from vitascope.contracts.flow import TERMINAL, State
from vitascope.contracts.frozen import Stored
from vitascope.contracts.ids import JobId, Token
from vitascope.contracts.models import Task

RECORD_MAX_BYTES = 8192
"""A record is read and written many times in a job's life: media and tensors never go into it."""
PROMPT_MAX_BYTES = 4096
NEGATIVE_PROMPT_MAX_BYTES = 1024
SEED_MIN, SEED_MAX = -(2**63), 2**63 - 1

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class Tier(StrEnum):
    """How urgent a job is."""

    INTERACTIVE = "interactive"
    STANDARD = "standard"
    BATCH = "batch"


class ObjectRef(Stored):
    """An object in the store, with what is needed to tell that it came back whole."""

    key: str
    bytes: int = Field(ge=0)
    sha256: Sha256


class ReferenceRole(StrEnum):
    """What a piece of media is to the job."""

    IMAGE = "image"
    VIDEO = "video"
    AUDIO = "audio"
    CONTROL = "control"
    SOURCE_VIDEO = "source_video"
    SOURCE_AUDIO = "source_audio"
    VIDEO_MASK = "video_mask"
    AUDIO_MASK = "audio_mask"


class Reference(Stored):
    """Media that a job starts from: checked, made upright and stored at acceptance. Its name is not kept."""

    role: ReferenceRole
    object: ObjectRef
    media_type: str
    width: int | None = Field(None, description="pixels, upright")
    height: int | None = Field(None, description="pixels, upright")
    num_frames: int | None = None
    duration_s: float | None = None
    has_audio: bool | None = Field(None, description="whether a video has sound; None where nobody looked")


class Lora(Stored):
    """A fine-tuning to apply for this job."""

    name: str
    path: str
    scale: float = 1.0
    int_id: int | None = None


class FrameInterpolation(Stored):
    """Frames to make between those of the model: `2 ** exp - 1` in each gap."""

    exp: int = 1
    scale: float = 1.0


class VideoRequest(Stored):
    """What is to be made. Frozen at acceptance: every value is filled in, the seed included."""

    tenant: Token
    tier: Tier = Tier.STANDARD
    model: str
    task: Task = Task.T2V
    prompt: str
    negative_prompt: str = ""
    width: int
    height: int
    num_frames: int
    fps: Fraction = Field(description="frames a second, exact: 24000/1001 stays so")
    num_inference_steps: int
    guidance_scale: float
    guidance_scale_2: float | None = None
    flow_shift: float | None = None
    boundary_ratio: float | None = None
    true_cfg_scale: float | None = None
    seed: int = Field(ge=SEED_MIN, le=SEED_MAX)
    generate_sound: bool = False
    sound_duration_s: float | None = None
    references: tuple[Reference, ...] = ()
    control_type: str | None = None
    source_job: JobId | None = Field(None, description="the finished job that this one remixes or extends")
    lora: Lora | None = None
    interpolation: FrameInterpolation | None = None
    video_codec_options: dict[str, str] = Field(default_factory=dict)
    extra_params: dict[str, JsonValue] = Field(default_factory=dict)
    labels: dict[str, str] = Field(default_factory=dict)


class Admission(Stored):
    """What was decided before any GPU time."""

    bucket: str
    pool: Token
    group_size: int
    estimated_gpu_s: float
    price_units: float
    idempotency_key: str | None = None
    body_sha256: Sha256 | None = None
    callback_url: str | None = Field(None, max_length=1024, description="where the events of this job are posted")
    kept_days: float | None = Field(None, gt=0, description="its tenant's own retention, if that is shorter")
    door: str | None = Field(None, description="which API made it, if not /v1/video-jobs: `videos`")
    quality: str | None = Field(None, description="the `quality` of /v1/videos, which shows it again")
    wants_metrics: bool = Field(False, description="whether /v1/videos was asked for `metrics`")


class Checkpoint(Stored):
    """The newest state that the denoise loop can resume from."""

    object: ObjectRef
    step: int
    fingerprint: str


class Run(Stored):
    """Where the job is. `attempt` is the fence: whoever holds an older one can change nothing."""

    state: State = State.QUEUED
    reason: str | None = Field(None, description="why it waits or ended, in words")
    failure: Failure | None = None
    attempt: int = Field(0, ge=0, description="rises with each denoise dispatch, and far when a lost ledger is rebuilt")
    failures: int = Field(0, ge=0, description="failed tries of the present stage")
    group: str | None = None
    step: int = Field(0, ge=0, description="denoising steps that are safe: in a checkpoint or in the latents")
    steps: int = Field(0, ge=0)
    checkpoint: Checkpoint | None = None
    restarted: str | None = Field(None, description="why steps that had been made were made again, in words")
    latents: ObjectRef | None = None
    chunks: int | None = Field(None, description="pixel chunks that decode left; None until it is done")
    preempt_requested: bool = Field(False, description="the group is to be given up at the next step boundary")
    preemptions: int = Field(0, ge=0, description="how often it was given up so far")
    not_before: AwareDatetime | None = None
    start_deadline: AwareDatetime | None = None


class Engine(Stored):
    """What made the video: two runs with equal engines and requests give equal frames."""

    fingerprint: str = Field(description="digest of the model folder's contents")
    versions: dict[str, str] = Field(default_factory=dict)
    dtype: str
    device: str
    degree: int = 1
    sampler: str


class Result(Stored):
    """What came out."""

    output: ObjectRef | None = None
    thumbnail: ObjectRef | None = None
    spritesheet: ObjectRef | None = None
    num_frames: int | None = None
    fps: Fraction | None = None
    duration_s: float | None = None
    has_audio: bool = False
    actual_gpu_s: float = 0.0
    billed_units: float = Field(0.0, description="what is charged: the price once it has succeeded, else nothing")
    engine: Engine | None = None
    stage_s: dict[str, float] = Field(default_factory=dict, description="seconds each stage worked, by stage")


class Times(Stored):
    """When the job reached each point."""

    created: AwareDatetime
    admitted: AwareDatetime | None = None
    started: AwareDatetime | None = None
    first_step: AwareDatetime | None = None
    denoised: AwareDatetime | None = None
    decoded: AwareDatetime | None = None
    encoded: AwareDatetime | None = None
    finished: AwareDatetime | None = None
    expires: AwareDatetime | None = None
    deleted: AwareDatetime | None = Field(None, description="its owner no longer sees it; the record goes a day later")


class JobRecord(Stored):
    """The whole job. Changed only through `contracts.transitions`, by compare-and-set on the ledger."""

    version: int = 1
    id: JobId
    request: VideoRequest
    admission: Admission
    run: Run = Run()
    retry_of: JobId | None = Field(None, description="the failed job whose latents or checkpoint this one took over")
    result: Result = Result()
    times: Times

    @property
    def state(self) -> State:
        """Where the job is."""
        return self.run.state

    @property
    def is_terminal(self) -> bool:
        """Whether nothing but expiry can follow."""
        return self.run.state in TERMINAL

    def to_bytes(self) -> bytes:
        """The form that is stored: JSON, UTF-8.

        Raises:
            ValueError: the record is larger than `RECORD_MAX_BYTES`.
        """
        stored = self.model_dump_json(exclude_none=True).encode()
        if len(stored) > RECORD_MAX_BYTES:
            raise ValueError(f"the job record has {len(stored)} bytes; the limit is {RECORD_MAX_BYTES}")
        return stored

    @classmethod
    def from_bytes(cls, stored: bytes) -> "JobRecord":
        """The record that `to_bytes` stored.

        Raises:
            pydantic.ValidationError: it is not one.
        """
        return cls.model_validate_json(stored)
