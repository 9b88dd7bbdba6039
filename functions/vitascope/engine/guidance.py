"""Puts a request's guidance and sampler settings on a job's pipeline.

Guiders are always set from the request. The defaults in the blocks cannot be relied on: for Wan 2.2 the text encoder
block and the denoiser declare a guider of one name with different scales, and which of them wins depends on which
blocks a pipeline holds.
"""

from collections.abc import Mapping
from typing import Any

from vitascope.engine.errors import RequestError
from vitascope.engine.inputs import GenerationInputs
from vitascope.engine.library import BaseGuidance, Component, Pipe, SchedulerMixin

# At 1 a guider is off: the library's pipelines treat every scale up to 1 so, its guiders only 1 itself.
NO_GUIDANCE = 1.0
# Any scale above 1 will do: it is only asked whether negative embeddings are needed.
GUIDANCE_WHILE_ENCODING = 2.0
LOW_NOISE_GUIDER = "guider_2"
SHIFT_NAMES = ("flow_shift", "shift")  # of the multistep samplers, and of FlowMatchEuler


def guiders_of(pipe: Pipe) -> dict[str, Component]:
    """The guiders among a pipeline's components, by name."""
    return {name: item for name, item in pipe.components.items() if isinstance(item, BaseGuidance)}


def apply_encode_guidance(pipe: Pipe) -> None:
    """Turns guidance on, so that the encoders make negative embeddings whatever the scales are.

    Without it, Wan's text encoder fails (it returns a name that it never set), and Wan 2.2 would lack the embeddings
    that its second guider needs.
    """
    pipe.update_components(
        **{name: guider.new(guidance_scale=GUIDANCE_WHILE_ENCODING) for name, guider in guiders_of(pipe).items()}
    )


def apply_guidance(pipe: Pipe, request: GenerationInputs) -> None:
    """Sets every guider's scale from the request, keeping its other settings.

    Raises:
        RequestError: the family has a guider and the request has no scale.
    """
    guiders = guiders_of(pipe)
    if guiders and request.guidance_scale is None:
        raise RequestError("guidance_scale must be given for this model")
    if request.guidance_scale_2 is not None and LOW_NOISE_GUIDER not in guiders:
        raise RequestError("guidance_scale_2 is for models with two transformers")
    pipe.update_components(
        **{name: guider.new(guidance_scale=_scale(name, request)) for name, guider in guiders.items()}
    )


def apply_sampler(pipe: Pipe, request: GenerationInputs) -> None:
    """Applies `flow_shift` and `boundary_ratio` where the request has them.

    Raises:
        RequestError: this model has no such setting.
    """
    if request.flow_shift is not None:
        pipe.update_components(scheduler=_shifted(pipe.components.get("scheduler"), request.flow_shift))
    if request.boundary_ratio is not None:
        if "boundary_ratio" not in pipe.config:
            raise RequestError("boundary_ratio is for models with two transformers")
        pipe.register_to_config(boundary_ratio=request.boundary_ratio)


def _scale(name: str, request: GenerationInputs) -> float:
    scale = request.guidance_scale_2 if name == LOW_NOISE_GUIDER else None
    if scale is None:
        scale = request.guidance_scale
    assert scale is not None
    return max(NO_GUIDANCE, scale)


def _shifted(scheduler: Component, shift: float) -> Component:
    config: Mapping[str, Any] = scheduler.config if isinstance(scheduler, SchedulerMixin) else {}
    names = [name for name in SHIFT_NAMES if name in config]
    if not names:
        raise RequestError(f"the sampler {type(scheduler).__name__} has no flow_shift")
    return type(scheduler).from_config(config, **{names[0]: shift})
