"""Admit a request: every field checked, every value filled in, the price known, or refused by the field's name."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from pydantic import JsonValue

from vitascope.admission.codec import read_codec_options
from vitascope.admission.deadline import read_start_deadline
from vitascope.admission.fields import Fields, echo, refuse
from vitascope.admission.price import compute_gpu_s, compute_price_units
from vitascope.admission.rate import read_fps
from vitascope.admission.shape import read_bucket
from vitascope.admission.text import read_labels, read_negative_prompt, read_prompt
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.jobs import SEED_MAX, SEED_MIN, Admission, Tier, VideoRequest
from vitascope.contracts.models import ModelEntry, Task
from vitascope.contracts.shapes import Bucket

ACCEPT_MAX_BYTES = 6 * 1024
"""Of request and admission as stored: leaves a quarter of `RECORD_MAX_BYTES` to what the job adds in its life."""
MAX_LISTED_MODELS = 10
"""Names that a refusal lists."""
MAX_NAME_CHARS = 64
"""An unknown field's name that is longer is not repeated as `param`."""

FIELDS = frozenset(
    {
        "model", "prompt", "negative_prompt", "size", "width", "height", "frames", "num_frames", "fps", "steps",
        "num_inference_steps", "guidance", "guidance_scale", "guidance_scale_2", "seed", "tier", "start_deadline",
        "labels", "generate_sound", "video_codec_options",
    },
)  # fmt: skip
"""What a body may hold, every spelling of it."""
CAPABILITY_FIELDS = frozenset(
    {
        "input_reference", "image_reference", "video_reference", "audio_reference", "image", "video", "audio", "mask",
        "control", "lora", "extra_params", "flow_shift", "boundary_ratio", "true_cfg_scale", "sound_duration",
        "enable_frame_interpolation",
    },
)  # fmt: skip
"""Fields that have a meaning, but for no model of any catalog yet: refused by name, never dropped without a word."""


@dataclass(frozen=True)
class Admitted:
    """What will be made, what it costs, and until when it must have started."""

    request: VideoRequest
    admission: Admission
    start_deadline: datetime | None


def choose_model(body: Mapping[str, JsonValue], entries: Sequence[ModelEntry]) -> ModelEntry:
    """The model that the body names, or the first."""
    name = Fields(body).read_str("model")
    entry = next((entry for entry in entries if name in {None, entry.name}), None)
    if entry is None:
        offer = ", ".join(entry.name for entry in entries[:MAX_LISTED_MODELS])
        raise VitascopeError(FailureCode.MODEL_NOT_FOUND, f"It has {offer}, not {echo(name)}.", param="model")
    return entry


def admit(
    body: Mapping[str, JsonValue],
    entry: ModelEntry,
    *,
    tenant: str,
    now: datetime,
    drawn_seed: int,
    idempotency_key: str | None = None,
    body_sha256: str | None = None,
) -> Admitted:
    """Check a body against a model. The same arguments give the same answer.

    Args:
        body: the parsed JSON object.
        entry: the model that `choose_model` found.
        tenant: who asks.
        now: counts for a start deadline in seconds.
        drawn_seed: the seed of a request that has none.
        idempotency_key: kept in the record.
        body_sha256: kept in the record.

    Raises:
        VitascopeError: of kind `refused`, with the field at fault as `param`.
    """
    _check_known(body, entry)
    fields = Fields(body)
    bucket = read_bucket(fields, entry)
    request = _read_request(fields, entry, bucket, tenant=tenant, drawn_seed=drawn_seed)
    gpu_s = compute_gpu_s(entry, bucket, request.num_inference_steps)
    admission = Admission(
        bucket=bucket.name,
        pool=entry.pool,
        group_size=bucket.group_size,
        estimated_gpu_s=gpu_s,
        price_units=compute_price_units(gpu_s),
        idempotency_key=idempotency_key,
        body_sha256=body_sha256,
    )
    _check_size(request, admission)
    return Admitted(request, admission, read_start_deadline(fields, now))


def _read_request(fields: Fields, entry: ModelEntry, bucket: Bucket, *, tenant: str, drawn_seed: int) -> VideoRequest:
    limits, defaults = entry.limits, entry.defaults
    steps = fields.read_int("steps", "num_inference_steps", low=limits.min_steps, high=limits.max_steps)
    guidance = fields.read_number("guidance", "guidance_scale", low=0, high=limits.max_guidance)
    seed = fields.read_int("seed", low=SEED_MIN, high=SEED_MAX)
    return VideoRequest(
        tenant=tenant,
        tier=_read_tier(fields),
        model=entry.name,
        task=Task.T2V,
        prompt=read_prompt(fields),
        negative_prompt=read_negative_prompt(fields),
        width=bucket.width,
        height=bucket.height,
        num_frames=bucket.num_frames,
        fps=read_fps(fields, limits, defaults.fps),
        num_inference_steps=defaults.num_inference_steps if steps is None else steps,
        guidance_scale=defaults.guidance_scale if guidance is None else guidance,
        guidance_scale_2=fields.read_number("guidance_scale_2", low=0, high=limits.max_guidance),
        seed=drawn_seed if seed is None else seed,
        generate_sound=fields.read_bool("generate_sound") or False,
        video_codec_options=read_codec_options(fields),
        labels=read_labels(fields),
    )


def _read_tier(fields: Fields) -> Tier:
    tier = fields.read_str("tier")
    if tier is None:
        return Tier.STANDARD
    if tier not in set(Tier):
        raise refuse("tier", f"tier must be one of {', '.join(Tier)}, not {echo(tier)}.")
    return Tier(tier)


def _check_known(body: Mapping[str, JsonValue], entry: ModelEntry) -> None:
    """Refuse fields that nobody knows, and those that the model has no use for."""
    fields = Fields(body)
    lacks = set(CAPABILITY_FIELDS)
    lacks |= set() if entry.has_sound or not fields.read_bool("generate_sound") else {"generate_sound"}
    lacks |= set() if entry.has_second_guidance else {"guidance_scale_2"}
    for name, value in body.items():
        if name in lacks and value is not None:
            raise VitascopeError(FailureCode.CAPABILITY_MISSING, f"{entry.name} does not take {name}.", param=name)
        if name not in FIELDS | CAPABILITY_FIELDS:
            near = difflib.get_close_matches(name[:40], FIELDS, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            param = name if name.isascii() and name.isprintable() and len(name) <= MAX_NAME_CHARS else None
            raise VitascopeError(FailureCode.UNKNOWN_FIELD, f"It is {echo(name)}.{hint}", param=param)


def _check_size(request: VideoRequest, admission: Admission) -> None:
    size = sum(len(part.model_dump_json(exclude_none=True).encode()) for part in (request, admission))
    if size > ACCEPT_MAX_BYTES:
        raise refuse(
            "prompt",
            f"Prompts, labels and options take {size} bytes together as JSON; at most {ACCEPT_MAX_BYTES} are kept.",
        )
