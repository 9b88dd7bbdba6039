"""The real denoiser: `vitascope.engine` models by name."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.jobs import Engine, VideoRequest
from vitascope.denoise.denoiser import CheckpointUnfit, OnStep
from vitascope.engine.denoise_model import DenoiseModel
from vitascope.engine.errors import BlobError, DeviceMemoryError, RequestError
from vitascope.engine.inputs import GenerationInputs
from vitascope.engine.loop import StepReport

PROOF = GenerationInputs(
    prompt="a",
    seed=0,
    width=64,
    height=64,
    num_frames=9,
    num_inference_steps=1,
    guidance_scale=1.0,
)
"""The smallest request that every family takes: whole patches, one frame more than a multiple of 4 and of 8."""


@dataclass(frozen=True)
class ModularDenoiser:
    """A `Denoiser` over the models that this process has loaded."""

    models: Mapping[str, DenoiseModel]

    def describe(self, model: str) -> Engine:
        """See `Denoiser`."""
        loaded = self._get(model)
        made_by = loaded.fingerprint
        return Engine(
            fingerprint=made_by.model,
            versions=dict(made_by.versions),
            dtype=made_by.dtype,
            device=made_by.device,
            degree=1,
            sampler=loaded.sampler,
        )

    def run(self, request: VideoRequest, references: Sequence[bytes], on_step: OnStep, resume: bytes | None) -> bytes:
        """See `Denoiser`."""
        model = self._get(request.model)
        if references:
            raise VitascopeError(FailureCode.REQUEST_UNFIT, "This process reads no reference media.")
        try:
            return model.run(to_inputs(request), _adapt(on_step), resume)
        except BlobError as error:
            raise CheckpointUnfit(str(error)) from error
        except DeviceMemoryError as error:
            raise MemoryError(str(error)) from error
        except RequestError as error:
            raise VitascopeError(FailureCode.REQUEST_UNFIT, str(error)) from error

    def prove(self) -> None:
        """See `Denoiser`."""
        for model in self.models.values():
            model.run(PROOF)

    def _get(self, model: str) -> DenoiseModel:
        if model not in self.models:
            raise VitascopeError(FailureCode.MODEL_NOT_FOUND, f"This group has not loaded {model}.")
        return self.models[model]


def to_inputs(request: VideoRequest) -> GenerationInputs:
    """The engine's words for a request."""
    return GenerationInputs(
        prompt=request.prompt,
        negative_prompt=request.negative_prompt or None,
        width=request.width,
        height=request.height,
        num_frames=request.num_frames,
        num_inference_steps=request.num_inference_steps,
        guidance_scale=request.guidance_scale,
        guidance_scale_2=request.guidance_scale_2,
        flow_shift=request.flow_shift,
        boundary_ratio=request.boundary_ratio,
        fps=request.fps,
        seed=request.seed,
        extra=request.extra_params,
    )


def _adapt(on_step: OnStep) -> Callable[[StepReport], None]:
    return lambda report: on_step(report.step, report.steps, report.snapshot)
