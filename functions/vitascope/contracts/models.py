"""A model's entry: where it comes from, what it can do, which shapes it offers."""

from enum import StrEnum
from fractions import Fraction
from typing import Literal

from pydantic import Field, model_validator

from vitascope.contracts.frozen import Stored
from vitascope.contracts.shapes import Bucket, CostModel, LatentGeometry, nearest_bucket


class Task(StrEnum):
    """What a request asks of a model."""

    T2V = "t2v"
    I2V = "i2v"
    V2V = "v2v"
    S2V = "s2v"
    EDIT = "edit"
    CONTROL = "control"


class Limits(Stored):
    """Bounds of the free numbers of a request."""

    min_steps: int = Field(1, ge=1)
    max_steps: int = Field(200, ge=1)
    max_guidance: float = Field(20.0, ge=0)
    min_fps: Fraction = Fraction(1)
    max_fps: Fraction = Fraction(120)


class Defaults(Stored):
    """What a request that leaves a number out gets."""

    width: int
    height: int
    num_frames: int
    fps: Fraction = Fraction(16)
    num_inference_steps: int = Field(50, ge=1)
    guidance_scale: float = Field(5.0, ge=0)


MediaKind = Literal["image", "video", "audio", "control", "source_video", "source_audio"]
"""References with rules: the roles of `contracts.jobs.ReferenceRole` that are media."""


class Extra(Stored):
    """One input of a model's blocks beyond the common fields: the type of `extra_params.NAME`, and its bounds."""

    type: Literal["boolean", "integer", "number", "string"]
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()


class MediaRule(Stored):
    """What a model asks of references of one kind; None asks for nothing."""

    min_side_px: int | None = Field(None, ge=1)
    max_side_px: int | None = Field(None, ge=1)
    min_ratio: float | None = Field(None, gt=0, description="width over height")
    max_ratio: float | None = Field(None, gt=0)
    min_s: float | None = Field(None, ge=0)
    max_s: float | None = Field(None, gt=0)
    max_total_s: float | None = Field(None, gt=0, description="of all references of the kind together")
    min_fps: float | None = Field(None, gt=0)
    max_fps: float | None = Field(None, gt=0)


CYCLE = (1, 4, 4, 4, 4)
"""Frames that each latent of a cycle folds, of a model with masks."""
CYCLE_END = (1, 4)
"""Frames of the latents after the last whole cycle."""


class LatentEdit(Stored):
    """A model that keeps masked parts of a source: the grids of its masks, as in MiniMax H3.

    A clip has 17 n + 5 frames: each 17 fold into latents as `CYCLE` says, the last 5 as `CYCLE_END` does.
    """

    spatial_px: int = Field(16, ge=1, description="pixels a cell of the latent grid stands for, along each axis")
    patch: int = Field(2, ge=1, description="cells a token stands for, along each axis")
    channels: int = Field(24, ge=1, description="latent channels of a cell")
    audio_rate_hz: float = Field(40.0, gt=0, description="audio latents a second")
    audio_channels: int = Field(32, ge=1)
    video_mask_input: str = Field("video_mask", description="the block input that takes the model mask")
    video_restore_input: str = Field("video_restore_mask", description="the block input that takes the restore mask")
    audio_mask_input: str = Field("audio_mask", description="the block input that takes the sound's model mask")
    audio_restore_input: str = Field("audio_restore_mask", description="the same for the sound's restore mask")

    def fits(self, bucket: Bucket) -> bool:
        """Whether a shape is made of whole tokens and whole cycles."""
        token_px, rest = self.spatial_px * self.patch, bucket.num_frames - sum(CYCLE_END)
        is_whole = bucket.width % token_px == 0 and bucket.height % token_px == 0
        return is_whole and rest >= 0 and rest % sum(CYCLE) == 0


class Capabilities(Stored):
    """What a request may ask of a model beyond text and numbers; whatever is not named here is refused by name."""

    max_images: int = Field(0, ge=0)
    max_videos: int = Field(0, ge=0)
    max_audios: int = Field(0, ge=0)
    media_rules: dict[MediaKind, MediaRule] = Field(default_factory=dict)
    mixes_references: bool = Field(False, description="whether images and videos may come together")
    control_types: tuple[str, ...] = ()
    control_options: dict[str, Extra] = Field(default_factory=dict, description="what `extra_params.TYPE` may hold")
    latent_edit: LatentEdit | None = None
    has_lora: bool = False
    lora_sources: tuple[str, ...] = Field((), description="what the path of a LoRA must begin with: folders, buckets")
    has_interpolation: bool = False
    has_flow_shift: bool = False
    has_boundary_ratio: bool = False
    has_true_cfg: bool = False
    can_extend: bool = Field(False, description="makes a longer video of a finished one; remix needs `max_videos`")
    extra_params: dict[str, Extra] = Field(default_factory=dict)


class ModelEntry(Stored):
    """One model that the service offers.

    Attributes:
        name: what a request calls it.
        source: a folder in the standard diffusers layout: a path, `s3://bucket/prefix`, or a hub id with `hub://`.
            `demo://` is the model that ships with the package.
        pool: the pool of GPU groups that serves it.
        dtype: the precision of the denoise and decode stages, a torch dtype's name.
        tasks: what it can do.
        has_sound: whether it makes audio with the picture.
        capabilities: what else it can do.
        has_second_guidance: whether it takes `guidance_scale_2`: a second transformer makes the low-noise steps.
    """

    name: str = Field(pattern=r"^[a-zA-Z0-9][a-zA-Z0-9._/-]{0,99}$")
    title: str = ""
    source: str
    pool: str = "default"
    dtype: str = "bfloat16"
    tasks: tuple[Task, ...] = (Task.T2V,)
    has_sound: bool = False
    has_second_guidance: bool = False
    capabilities: Capabilities = Capabilities()
    geometry: LatentGeometry = LatentGeometry()
    cost: CostModel = CostModel()
    buckets: tuple[Bucket, ...] = Field(min_length=1)
    defaults: Defaults
    limits: Limits = Limits()

    @model_validator(mode="after")
    def _default_shape_is_a_bucket(self) -> "ModelEntry":
        if self.find_bucket(self.defaults.width, self.defaults.height, self.defaults.num_frames) is None:
            raise ValueError(f"model {self.name}: the default shape is not one of its buckets")
        return self

    def find_bucket(self, width: int, height: int, num_frames: int) -> Bucket | None:
        """The bucket of exactly that shape, or None."""
        wished = (width, height, num_frames)
        return next((b for b in self.buckets if (b.width, b.height, b.num_frames) == wished), None)

    def nearest_bucket(self, width: int, height: int, num_frames: int) -> Bucket:
        """The bucket to suggest instead of a shape that is not offered."""
        return nearest_bucket(self.buckets, width, height, num_frames)
