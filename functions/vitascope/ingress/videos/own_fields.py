"""The fields that only this API has, and what they come to in the fields that admission knows. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from vitascope.admission.fields import Fields, echo, refuse
from vitascope.admission.text import check_text
from vitascope.contracts.failures import FailureCode, VitascopeError

USER_MAX_BYTES = 512
MAX_OUTPUTS = 10
"""What the field may say at all; more than one is refused, too, but for the reason that it is."""
CRF_OF_QUALITY: Mapping[str, int] = {"high": 12, "lossless": 1}
"""12 leaves no loss that an eye finds; 1 is the least that 8-bit H.264 has which every player opens."""
OWN_FIELDS = frozenset({"user", "quality", "return_stage_metrics", "num_outputs_per_prompt"})


@dataclass(frozen=True)
class Shown:
    """A request as admission takes it, and what its record shows again."""

    body: dict[str, JsonValue]
    quality: str | None
    wants_metrics: bool


def take_own(body: Mapping[str, JsonValue]) -> Shown:
    """Take out what is this API's own. `size` goes before `width` and `height`.

    Raises:
        VitascopeError: `invalid_request`; `capability_missing`, more than one video.
    """
    fields = Fields(body)
    user = fields.read_str("user")
    if user is not None:
        check_text("user", user, USER_MAX_BYTES)  # OpenAI's own field: for the client's books, and not kept
    outputs = fields.read_int("num_outputs_per_prompt", low=1, high=MAX_OUTPUTS)
    if outputs is not None and outputs != 1:
        detail = "A request makes one video: send one request for each."
        raise VitascopeError(FailureCode.CAPABILITY_MISSING, detail, param="num_outputs_per_prompt")
    kept = {name: value for name, value in body.items() if name not in OWN_FIELDS}
    if kept.get("size") is not None:
        kept.pop("width", None)
        kept.pop("height", None)
    quality = _read_quality(fields)
    if quality is not None:
        _set_crf(kept, CRF_OF_QUALITY[quality])
    return Shown(kept, quality, wants_metrics=fields.read_bool("return_stage_metrics") or False)


def _read_quality(fields: Fields) -> str | None:
    quality = fields.read_str("quality")
    if quality is None or quality in CRF_OF_QUALITY:
        return quality
    raise refuse("quality", f"quality is {' or '.join(sorted(CRF_OF_QUALITY))}, not {echo(quality)}.")


def _set_crf(body: dict[str, JsonValue], crf: int) -> None:
    """The rate factor that the quality stands for, unless the request names one, in either place."""
    extras = body.get("extra_params")
    held = extras.get("video_codec_options") if isinstance(extras, dict) else None
    options = body.get("video_codec_options") or held or {}
    if isinstance(options, dict) and "crf" not in options:
        changed: dict[str, JsonValue] = {**options, "crf": crf}
        body["video_codec_options"] = changed
        if isinstance(extras, dict) and held is not None:
            body["extra_params"] = {**extras, "video_codec_options": changed}
