"""The free numbers of a request: bounds from the model's entry, defaults where it leaves one out."""

from dataclasses import dataclass
from fractions import Fraction

from vitascope.admission.fields import Fields, refuse
from vitascope.admission.rate import read_fps
from vitascope.contracts.jobs import SEED_MAX, SEED_MIN
from vitascope.contracts.models import ModelEntry

MAX_FLOW_SHIFT = 100.0
"""At 100 every step but the last few is spent on noise."""
MAX_SOUND_S = 3600.0


@dataclass(frozen=True)
class Numbers:
    """As `VideoRequest` has them."""

    fps: Fraction
    num_inference_steps: int
    guidance_scale: float
    guidance_scale_2: float | None
    true_cfg_scale: float | None
    flow_shift: float | None
    boundary_ratio: float | None
    seed: int
    sound_duration_s: float | None


def read_numbers(fields: Fields, entry: ModelEntry, drawn_seed: int) -> Numbers:
    """All of them; the seed is `drawn_seed` if the request has none."""
    limits, defaults = entry.limits, entry.defaults
    steps = fields.read_int("steps", "num_inference_steps", low=limits.min_steps, high=limits.max_steps)
    guidance = fields.read_number("guidance", "guidance_scale", low=0, high=limits.max_guidance)
    seed = fields.read_int("seed", low=SEED_MIN, high=SEED_MAX)
    return Numbers(
        fps=read_fps(fields, limits, defaults.fps),
        num_inference_steps=defaults.num_inference_steps if steps is None else steps,
        guidance_scale=defaults.guidance_scale if guidance is None else guidance,
        guidance_scale_2=fields.read_number("guidance_scale_2", low=0, high=limits.max_guidance),
        true_cfg_scale=fields.read_number("true_cfg_scale", low=0, high=limits.max_guidance),
        flow_shift=_read_above_0(fields, "flow_shift", "extra_params.flow_shift", high=MAX_FLOW_SHIFT),
        boundary_ratio=fields.read_number("boundary_ratio", low=0, high=1),
        seed=drawn_seed if seed is None else seed,
        sound_duration_s=_read_sound(fields),
    )


def _read_sound(fields: Fields) -> float | None:
    seconds = _read_above_0(fields, "sound_duration", "extra_params.sound_duration", high=MAX_SOUND_S)
    if seconds is not None and not fields.read_bool("generate_sound"):
        raise refuse("sound_duration", "sound_duration needs generate_sound.")
    return seconds


def _read_above_0(fields: Fields, *names: str, high: float) -> float | None:
    value = fields.read_number(*names, low=0, high=high)
    if value == 0:
        name = fields.find(*names)[0]
        raise refuse(name, f"{name} must be above 0.")
    return value
