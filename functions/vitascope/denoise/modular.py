"""The real denoiser: `vitascope.engine` models by name."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.jobs import Engine, VideoRequest
from vitascope.contracts.models import LatentEdit, Task
from vitascope.denoise.denoiser import CheckpointUnfit, OnStep
from vitascope.denoise.edit import read_edit
from vitascope.denoise.extras import gather_extras
from vitascope.denoise.references import make_proof_media, read_references
from vitascope.engine.denoise_model import DenoiseModel
from vitascope.engine.errors import BlobError, DeviceMemoryError, RequestError
from vitascope.engine.inputs import GenerationInputs
from vitascope.engine.loop import StepReport

PROOF_SIZE, PROOF_FRAMES = (64, 64), 9
PROOF = GenerationInputs(
    prompt="a",
    seed=0,
    width=PROOF_SIZE[0],
    height=PROOF_SIZE[1],
    num_frames=PROOF_FRAMES,
    num_inference_steps=1,
    guidance_scale=1.0,
)
"""The smallest request that every family takes: whole patches, one frame more than a multiple of 4 and of 8."""


@dataclass(frozen=True)
class ModularDenoiser:
    """A `Denoiser` over the models that this process has loaded.

    Attributes:
        models: by name.
        edits: the grids of those that keep masked parts of a source, by name.
    """

    models: Mapping[str, DenoiseModel]
    edits: Mapping[str, LatentEdit] = field(default_factory=dict)

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
        media = read_references(request, references, model.input_names)
        edit = self.edits.get(request.model)
        media |= read_edit(request, references, edit) if edit is not None else {}
        try:
            return model.run(to_inputs(request, media), _adapt(on_step), resume)
        except BlobError as error:
            raise CheckpointUnfit(str(error)) from error
        except DeviceMemoryError as error:
            raise MemoryError(str(error)) from error
        except RequestError as error:
            raise VitascopeError(FailureCode.REQUEST_UNFIT, str(error)) from error

    def prove(self) -> None:
        """See `Denoiser`."""
        for model in self.models.values():
            media = {} if Task.T2V in model.tasks else make_proof_media(PROOF_SIZE, PROOF_FRAMES, model.input_names)
            model.run(replace(PROOF, extra=media))

    def _get(self, model: str) -> DenoiseModel:
        if model not in self.models:
            raise VitascopeError(FailureCode.MODEL_NOT_FOUND, f"This group has not loaded {model}.")
        return self.models[model]


def to_inputs(request: VideoRequest, media: Mapping[str, Any]) -> GenerationInputs:  # whatever a block may take
    """The engine's words for a request; `media` is what its references hold, by the names of the blocks' inputs."""
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
        generate_sound=request.generate_sound,
        extra={**gather_extras(request), **media},
    )


def _adapt(on_step: OnStep) -> Callable[[StepReport], None]:
    return lambda report: on_step(report.step, report.steps, report.snapshot)
