"""What a request asks beyond the common fields, as inputs of the model's blocks; and whether the blocks have them."""

from collections.abc import Collection
from typing import Any

from vitascope.contracts.jobs import VideoRequest
from vitascope.contracts.models import Capabilities, ModelEntry
from vitascope.denoise.references import (
    AUDIO,
    CONTROL_VIDEOS,
    DRIVING_VIDEO,
    IMAGE,
    REFERENCE_IMAGES,
    SOURCE_VIDEO,
    VIDEO,
)

LORA, TRUE_CFG, SOUND_DURATION = "lora", "true_cfg_scale", "sound_duration"
"""The block inputs of these fields."""


def gather_extras(request: VideoRequest) -> dict[str, Any]:  # whatever a block may take
    """The inputs by name; the options of a control stand among the others."""
    extras: dict[str, Any] = dict(request.extra_params)
    options = extras.pop(request.control_type, {}) if request.control_type is not None else {}
    extras |= options
    if request.lora is not None:
        extras[LORA] = request.lora.model_dump(exclude_none=True)
    if request.true_cfg_scale is not None:
        extras[TRUE_CFG] = request.true_cfg_scale
    if request.sound_duration_s is not None:
        extras[SOUND_DURATION] = request.sound_duration_s
    return extras


def check_declared(entry: ModelEntry, inputs: Collection[str]) -> None:
    """Refuse to serve a model whose entry promises what its blocks have no input for.

    Args:
        entry: of the catalog.
        inputs: names of the blocks' inputs.

    Raises:
        ValueError: naming the entry's field and the input.
    """
    can = entry.capabilities
    promised = {f"extra_params.{name}": name for name in can.extra_params}
    promised |= {f"control_options.{name}": name for name in can.control_options}
    promised |= {"has_lora": LORA} if can.has_lora else {}
    promised |= {"has_true_cfg": TRUE_CFG} if can.has_true_cfg else {}
    if can.latent_edit is not None:
        edit = can.latent_edit
        names = (edit.video_mask_input, edit.video_restore_input, edit.audio_mask_input, edit.audio_restore_input)
        sound = 0 if entry.has_sound else 2
        promised |= {f"latent_edit: {name}": name for name in names[: len(names) - sound]}
    for field, name in promised.items():
        if name not in inputs:
            raise ValueError(f"model {entry.name}: capabilities.{field}: its blocks have no input {name}")
    for field, choices in _list_media(can).items():
        if not choices & set(inputs):
            wanted = " or ".join(sorted(choices))
            raise ValueError(f"model {entry.name}: capabilities.{field}: its blocks have no input {wanted}")


def _list_media(can: Capabilities) -> dict[str, set[str]]:
    """The inputs of which one is needed for the media of each ability; see `references`."""
    media = {
        "max_images": (can.max_images, {IMAGE, REFERENCE_IMAGES}),
        "max_videos": (can.max_videos, {VIDEO, DRIVING_VIDEO}),
        "max_audios": (can.max_audios, {AUDIO}),
        "control_types": (can.control_types, {CONTROL_VIDEOS, VIDEO}),
        "latent_edit": (can.latent_edit, {SOURCE_VIDEO, VIDEO}),
    }
    return {field: names for field, (is_declared, names) in media.items() if is_declared}
