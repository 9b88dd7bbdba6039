"""Which field needs which ability of a model: one table, read before anything else is."""

import difflib
from collections.abc import Callable, Collection, Mapping

from pydantic import JsonValue

from vitascope.admission.fields import Fields, echo
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.models import Capabilities, ModelEntry

MAX_NAME_CHARS = 64
"""An unknown field's name that is longer is not repeated as `param`."""
_HINT_CHARS = 40

Ability = Callable[[ModelEntry], bool]


def _can(ability: Callable[[Capabilities], object]) -> Ability:
    return lambda entry: bool(ability(entry.capabilities))


_ANY_MEDIA = _can(lambda can: can.max_images or can.max_videos or can.max_audios)
_INTERPOLATES = _can(lambda can: can.has_interpolation)
_EDITS = _can(lambda can: can.latent_edit)
_CONTROLS = _can(lambda can: can.control_types)


def _has_sound(entry: ModelEntry) -> bool:
    return entry.has_sound


def _never(_: ModelEntry) -> bool:
    return False


MEDIA_FIELDS: Mapping[str, Ability] = {
    "input_reference": _can(lambda can: can.max_images or can.max_videos),
    "input_references": _ANY_MEDIA,
    "image_reference": _can(lambda can: can.max_images),
    "video_reference": _can(lambda can: can.max_videos),
    "audio_reference": _can(lambda can: can.max_audios),
    "control_reference": _CONTROLS,
    "source_video": _EDITS,
    "source_audio": _EDITS,
    "video_noise_mask": _EDITS,
    "audio_noise_mask": _EDITS,
}
"""Fields that stand for media. Whoever reads requests turns them into references before the body is admitted."""

CAPABILITY_FIELDS: Mapping[str, Ability] = {
    **MEDIA_FIELDS,
    "control_type": _CONTROLS,
    "lora": _can(lambda can: can.has_lora),
    "flow_shift": _can(lambda can: can.has_flow_shift),
    "boundary_ratio": _can(lambda can: can.has_boundary_ratio),
    "true_cfg_scale": _can(lambda can: can.has_true_cfg),
    "guidance_scale_2": lambda entry: entry.has_second_guidance,
    "generate_sound": _has_sound,
    "sound_duration": lambda entry: entry.has_sound and "sound_duration" in entry.capabilities.extra_params,
    "enable_frame_interpolation": _INTERPOLATES,
    "frame_interpolation_exp": _INTERPOLATES,
    "frame_interpolation_scale": _INTERPOLATES,
    "frame_interpolation_model_path": _never,
    "start_time_seconds": _never,
}
"""Fields that a model must be able to make use of; refused by name otherwise, never dropped without a word. What no
model can is listed too: the refusal says more than that the name is unknown."""

PLAIN_FIELDS = frozenset(
    {
        "model", "prompt", "negative_prompt", "size", "width", "height", "frames", "num_frames", "seconds", "fps",
        "aspect_ratio", "short_edge",
        "steps", "num_inference_steps", "guidance", "guidance_scale", "seed", "tier", "start_deadline", "labels",
        "callback_url", "video_codec_options", "extra_params",
    },
)  # fmt: skip
"""Fields that every model takes."""
FIELDS = PLAIN_FIELDS | frozenset(CAPABILITY_FIELDS)
"""What a body may hold, every spelling of it."""
_SWITCHES = ("generate_sound", "enable_frame_interpolation")
"""False asks for nothing, and so of no ability."""


def check_known(body: Mapping[str, JsonValue], entry: ModelEntry) -> None:
    """Refuse fields that nobody knows, and those that the model has no use for.

    Raises:
        VitascopeError: `unknown_field`, with the name that was meant, perhaps; `capability_missing`.
    """
    for name in body:
        if name not in FIELDS:
            near = difflib.get_close_matches(name[:_HINT_CHARS], FIELDS, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            param = name if name.isascii() and name.isprintable() and len(name) <= MAX_NAME_CHARS else None
            raise VitascopeError(FailureCode.UNKNOWN_FIELD, f"It is {echo(name)}.{hint}", param=param)
    fields = Fields(body)
    off = {name for name in _SWITCHES if not fields.read_bool(name)}
    check_able([name for name, value in body.items() if value is not None and name not in off], entry)


def check_able(names: Collection[str], entry: ModelEntry) -> None:
    """Refuse fields by name that the model has no use for: asked before any media is fetched or read.

    Raises:
        VitascopeError: `capability_missing`.
    """
    for name in names:
        if name in CAPABILITY_FIELDS and not CAPABILITY_FIELDS[name](entry):
            raise lacks(entry, name)


def lacks(entry: ModelEntry, name: str, detail: str = "") -> VitascopeError:
    """The refusal of what the model cannot do."""
    return VitascopeError(FailureCode.CAPABILITY_MISSING, f"{entry.name} does not take {name}. {detail}", param=name)
