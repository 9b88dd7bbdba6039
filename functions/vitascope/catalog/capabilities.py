"""What an entry says of its abilities must hold together, so that no request is admitted for what nothing can do."""

import re
from collections.abc import Iterator, Mapping

from vitascope.contracts.models import Capabilities, Extra, MediaRule, ModelEntry, Task

_EXTRA_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_CONTROL_TYPE = re.compile(r"[a-z][a-z0-9_]{0,31}")
_LORA_SOURCE = re.compile(r"[A-Za-z0-9:._/@-]{1,200}/")
_OWN = frozenset(
    {
        "prompt", "negative_prompt", "width", "height", "num_frames", "num_inference_steps", "guidance_scale", "seed",
        "fps", "frame_rate", "generator", "output_type", "image", "video", "audio", "source_video",
        "source_audio", "control_videos", "lora", "true_cfg_scale", "flow_shift",
        "video_codec_options", "preencode_mp4", "preencode_batch_frames",
    },
)  # fmt: skip
"""Inputs that requests set in another way: an extra of that name would set them twice."""


def find_faults(entry: ModelEntry) -> Iterator[tuple[str, str]]:
    """What is wrong with an entry's abilities: the field, and why."""
    can = entry.capabilities
    yield from _find_task_faults(entry)
    for place, extras in (("extra_params", can.extra_params), ("control_options", can.control_options)):
        yield from _find_extra_faults(f"capabilities.{place}", extras)
    for kind, rule in can.media_rules.items():
        yield from ((f"capabilities.media_rules.{kind}", reason) for reason in _find_rule_faults(rule))
    for name in (name for name in can.control_types if _CONTROL_TYPE.fullmatch(name) is None):
        yield "capabilities.control_types", f"{name!r} must be lower-case letters, digits and underscores"
    if can.control_options and not can.control_types:
        yield "capabilities.control_options", "needs control_types"
    if can.has_lora != bool(can.lora_sources):
        yield "capabilities.lora_sources", "has_lora and lora_sources come together: requests name adapters inside them"
    for source in (source for source in can.lora_sources if _LORA_SOURCE.fullmatch(source) is None):
        yield "capabilities.lora_sources", f"{source!r} must be a plain path or address that ends with a slash"
    if can.has_interpolation:
        yield "capabilities.has_interpolation", "no stage of this release makes frames between frames"
    if can.latent_edit is not None:
        for bucket in (bucket for bucket in entry.buckets if not can.latent_edit.fits(bucket)):
            yield "capabilities.latent_edit", f"the shape {bucket.name} is not made of whole tokens and cycles"


def _find_task_faults(entry: ModelEntry) -> Iterator[tuple[str, str]]:
    """Tasks and the media that they start from come together."""
    for task, (field, is_able) in _needs(entry.capabilities).items():
        if (task in entry.tasks) != is_able:
            yield f"capabilities.{field}", f"goes with the task {task}, of which tasks says the opposite"


def _needs(can: Capabilities) -> Mapping[Task, tuple[str, bool]]:
    return {
        Task.I2V: ("max_images", can.max_images > 0),
        Task.V2V: ("max_videos", can.max_videos > 0),
        Task.S2V: ("max_audios", can.max_audios > 0),
        Task.CONTROL: ("control_types", bool(can.control_types)),
        Task.EDIT: ("latent_edit", can.latent_edit is not None),
    }


def _find_rule_faults(rule: MediaRule) -> Iterator[str]:
    pairs = {
        "side_px": (rule.min_side_px, rule.max_side_px),
        "ratio": (rule.min_ratio, rule.max_ratio),
        "s": (rule.min_s, rule.max_s),
        "fps": (rule.min_fps, rule.max_fps),
    }
    for name, (low, high) in pairs.items():
        if low is not None and high is not None and low > high:
            yield f"min_{name} is above max_{name}"


def _find_extra_faults(place: str, extras: Mapping[str, Extra]) -> Iterator[tuple[str, str]]:
    for name, extra in extras.items():
        where = f"{place}.{name}"
        if _EXTRA_NAME.fullmatch(name) is None:
            yield place, f"{name!r} must be letters, digits and underscores, at most 64"
        if name in _OWN:
            yield where, "requests set this in another way"
        is_number = extra.type in {"integer", "number"}
        if not is_number and (extra.minimum is not None or extra.maximum is not None):
            yield where, "minimum and maximum are for numbers"
        if extra.minimum is not None and extra.maximum is not None and extra.minimum > extra.maximum:
            yield where, "minimum is above maximum"
        if extra.choices and extra.type != "string":
            yield where, "choices are for strings"
