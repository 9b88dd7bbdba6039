"""Admit a request: every field checked, every value filled in, the price known, or refused by the field's name."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from types import MappingProxyType

from pydantic import JsonValue

from vitascope.admission.callback import read_callback_url
from vitascope.admission.capabilities import check_known
from vitascope.admission.codec import read_codec_options
from vitascope.admission.control import read_control_type
from vitascope.admission.deadline import read_start_deadline
from vitascope.admission.edit import choose_kept
from vitascope.admission.extras import lift, read_extras
from vitascope.admission.fields import Fields, echo, refuse
from vitascope.admission.interpolation import read_interpolation
from vitascope.admission.lora import read_lora
from vitascope.admission.media_rules import check_media
from vitascope.admission.numbers import Numbers, read_numbers
from vitascope.admission.price import compute_gpu_s, compute_price_units
from vitascope.admission.references import check_counts, check_read, check_together, choose_task
from vitascope.admission.shape import read_bucket
from vitascope.admission.text import read_labels, read_negative_prompt, read_prompt
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.ids import JobId
from vitascope.contracts.jobs import Admission, Reference, ReferenceRole, Tier, VideoRequest
from vitascope.contracts.models import ModelEntry
from vitascope.contracts.shapes import Bucket

ACCEPT_MAX_BYTES = 6 * 1024
"""Of request and admission as stored: leaves a quarter of `RECORD_MAX_BYTES` to what the job adds in its life."""
MAX_LISTED_MODELS = 10
"""Names that a refusal lists."""
NO_MASKS: Mapping[ReferenceRole, bytes] = MappingProxyType({})


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


def admit(  # noqa: PLR0913 (one keyword for each thing that comes beside the body)
    body: Mapping[str, JsonValue],
    entry: ModelEntry,
    *,
    tenant: str,
    now: datetime,
    drawn_seed: int,
    idempotency_key: str | None = None,
    body_sha256: str | None = None,
    references: Sequence[Reference] = (),
    masks: Mapping[ReferenceRole, bytes] = NO_MASKS,
    source_job: JobId | None = None,
    door: str | None = None,
) -> Admitted:
    """Check a body against a model. The same arguments give the same answer.

    A mask of `MASK_MAX_BYTES` takes most of a second to check: with masks, call it from a thread of its own.

    Args:
        body: the parsed JSON object. It may name the media that `references` were read from; only the names count.
        entry: the model that `choose_model` found.
        tenant: who asks.
        now: counts for a start deadline in seconds.
        drawn_seed: the seed of a request that has none.
        idempotency_key: kept in the record.
        body_sha256: kept in the record.
        references: the media, read, checked and stored.
        masks: the contents of the masks among them, by role: UTF-8 text, JSON numbers.
        source_job: the finished job whose video is among the references, if one is.
        door: kept in the record.

    Raises:
        VitascopeError: of kind `refused`, with the field at fault as `param`.
    """
    check_known(body, entry)
    names = [name for name, value in body.items() if value is not None]
    roles = [reference.role for reference in references]
    check_together(names)
    check_read(names, references)
    check_counts(roles, entry)
    fields = Fields(lift(body))
    numbers = read_numbers(fields, entry, drawn_seed)
    bucket = read_bucket(fields, entry, numbers.fps)
    check_media(references, entry)
    kept = choose_kept(references, masks, entry, bucket=bucket, fps=numbers.fps)
    request = _read_request(fields, entry, bucket, numbers, tenant=tenant, references=kept, source_job=source_job)
    gpu_s = compute_gpu_s(entry, bucket, request.num_inference_steps)
    admission = Admission(
        bucket=bucket.name,
        pool=entry.pool,
        group_size=bucket.group_size,
        estimated_gpu_s=gpu_s,
        price_units=compute_price_units(gpu_s),
        idempotency_key=idempotency_key,
        body_sha256=body_sha256,
        callback_url=read_callback_url(fields),
        door=door,
    )
    _check_size(request, admission)
    return Admitted(request, admission, read_start_deadline(fields, now))


def _read_request(
    fields: Fields,
    entry: ModelEntry,
    bucket: Bucket,
    numbers: Numbers,
    *,
    tenant: str,
    references: tuple[Reference, ...],
    source_job: JobId | None,
) -> VideoRequest:
    control_type = read_control_type(fields, entry)
    return VideoRequest(
        tenant=tenant,
        tier=_read_tier(fields),
        model=entry.name,
        task=choose_task(references, entry),
        prompt=read_prompt(fields),
        negative_prompt=read_negative_prompt(fields),
        width=bucket.width,
        height=bucket.height,
        num_frames=bucket.num_frames,
        **asdict(numbers),
        generate_sound=fields.read_bool("generate_sound") or False,
        references=references,
        control_type=control_type,
        source_job=source_job,
        lora=read_lora(fields, entry),
        interpolation=read_interpolation(fields),
        video_codec_options=read_codec_options(fields),
        extra_params=read_extras(fields, entry, control_type),
        labels=read_labels(fields),
    )


def _read_tier(fields: Fields) -> Tier:
    tier = fields.read_str("tier")
    if tier is None:
        return Tier.STANDARD
    if tier not in set(Tier):
        raise refuse("tier", f"tier must be one of {', '.join(Tier)}, not {echo(tier)}.")
    return Tier(tier)


def _check_size(request: VideoRequest, admission: Admission) -> None:
    size = sum(len(part.model_dump_json(exclude_none=True).encode()) for part in (request, admission))
    if size > ACCEPT_MAX_BYTES:
        raise refuse(
            "prompt",
            f"Prompts, labels, options and references take {size} bytes together as JSON; "
            f"at most {ACCEPT_MAX_BYTES} are kept.",
        )
