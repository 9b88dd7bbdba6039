"""What one generation asks of a model."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from vitascope.engine.errors import RequestError

MIN_SEED, MAX_SEED = -(2**63), 2**63 - 1  # what a torch generator takes


@dataclass(frozen=True)
class GenerationInputs:
    """The inputs of one video, in the words of the job record.

    None leaves a value to the family's own default. A field that a family has no input for is left out (MiniMax-H3 has
    no guidance, Helios pyramids count steps per level); a name in `extra` that it has no input for is an error.

    Attributes:
        prompt: what to show.
        seed: int64; starts the job's one generator, on the CPU, so that noise does not depend on the device.
        negative_prompt: what not to show.
        width: pixels; a multiple of the model's patch.
        height: pixels; likewise.
        num_frames: frames of the video; for most families 1 more than a multiple of 4 or 8.
        num_inference_steps: steps of the sampler.
        guidance_scale: weight of the prompt; 1 and below mean no guidance, as in the library's pipelines. Needed by
            every family with a guider, because the blocks' own defaults contradict each other.
        guidance_scale_2: the same for the low-noise transformer of Wan 2.2; None means as `guidance_scale`.
        fps: frames per second, for families that are conditioned on it.
        flow_shift: replaces the sampler's shift of noise levels.
        boundary_ratio: replaces the share of the noise levels at which Wan 2.2 changes transformers, 0 to 1.
        generate_sound: whether the video is to have sound, for families that make it on demand.
        extra: other inputs of the family's blocks by name: images, videos, switches.
    """

    prompt: str
    seed: int
    negative_prompt: str | None = None
    width: int | None = None
    height: int | None = None
    num_frames: int | None = None
    num_inference_steps: int | None = None
    guidance_scale: float | None = None
    guidance_scale_2: float | None = None
    fps: Fraction | None = None
    flow_shift: float | None = None
    boundary_ratio: float | None = None
    generate_sound: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not MIN_SEED <= self.seed <= MAX_SEED:
            raise RequestError(f"seed {self.seed} is not between {MIN_SEED} and {MAX_SEED}")
        for name in ("width", "height", "num_frames", "num_inference_steps", "fps", "flow_shift"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise RequestError(f"{name} {value} is not positive")
        if self.boundary_ratio is not None and not 0 <= self.boundary_ratio <= 1:
            raise RequestError(f"boundary_ratio {self.boundary_ratio} is not between 0 and 1")
        object.__setattr__(self, "extra", MappingProxyType(dict(self.extra)))

    def digest(self) -> str:
        """sha256 over every value, media included: a checkpoint belongs to this request and to no other."""
        content = {item.name: _canonical(getattr(self, item.name)) for item in fields(self)}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _canonical(value: Any) -> Any:
    """Plain JSON that is equal for equal values; media as a digest."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, Mapping):
        return {str(name): _canonical(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_canonical(item) for item in value]
    if isinstance(value, torch.Tensor):
        # As bytes: numpy has no bfloat16.
        content = value.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes()
        return f"{value.dtype} {tuple(value.shape)} {hashlib.sha256(content).hexdigest()}"
    # Arrays, and pictures of PIL, which give their pixels as an array.
    pixels = np.asarray(value)
    if pixels.dtype == object:
        raise RequestError(f"a value of type {type(value).__name__} cannot be an input")
    return f"{pixels.dtype} {pixels.shape} {hashlib.sha256(pixels.tobytes()).hexdigest()}"
