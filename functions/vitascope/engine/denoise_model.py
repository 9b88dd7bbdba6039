"""A model in the denoise process: text and media encoders, transformer and sampler, from a request to latents."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import torch

from vitascope.engine.errors import RequestError, memory_errors_translated
from vitascope.engine.families import Family
from vitascope.engine.fingerprints import Fingerprint
from vitascope.engine.guidance import apply_encode_guidance, apply_guidance, apply_sampler
from vitascope.engine.inputs import GenerationInputs
from vitascope.engine.library import Blocks, Pipe, PipelineState, State
from vitascope.engine.loading import Dtypes, LoadedStages, load_stages
from vitascope.engine.loop import OnStep
from vitascope.engine.pipes import build_pipe
from vitascope.engine.run import pack_hand_over, run_stage
from vitascope.engine.stages import create_blocks, join, split

# In the hand-over's stamp: which inputs were present, so that the decode process picks the same branches.
PRESENT = "present"
FINGERPRINT = "fingerprint"
REQUEST = "request"


class DenoiseModel:
    """One model folder, loaded for encoding and denoising. One `run` at a time."""

    def __init__(self, loaded: LoadedStages) -> None:
        self._loaded = loaded

    @classmethod
    def load(
        cls, folder: Path, *, dtype: Dtypes, device: str = "cpu", configs: Mapping[str, Any] | None = None
    ) -> Self:
        """Loads the encode and denoise stages of a model folder in diffusers layout. See `load_stages` for errors."""
        return cls(
            load_stages(folder, ("encode", "denoise"), dtype=dtype, device=torch.device(device), configs=configs)
        )

    @property
    def family(self) -> str:
        """Our name of the model family."""
        return self._loaded.family.name

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks that this folder offers."""
        return self._loaded.tasks

    @property
    def fingerprint(self) -> Fingerprint:
        """Equal fingerprints give equal bits for equal requests."""
        return self._loaded.fingerprint

    @property
    def sampler(self) -> str:
        """The class of the sampler that the folder comes with."""
        return type(self._loaded.components["scheduler"]).__name__

    @property
    def input_names(self) -> frozenset[str]:
        """Names of the inputs that the family's blocks have: what `GenerationInputs.extra` may hold."""
        return frozenset(create_blocks(self._loaded.family.blocks).input_names)

    @torch.no_grad()
    def run(self, request: GenerationInputs, on_step: OnStep | None = None, resume: bytes | None = None) -> bytes:
        """Encodes the inputs, denoises, and returns what the decode process needs, as bytes.

        Args:
            request: what to make.
            on_step: called after every step, in this thread; what it raises (`Stop`) ends the run and passes through.
            resume: a checkpoint made by `StepReport.snapshot` in a run of the same request on the same fingerprint:
                the run goes on after that step, and its result equals that of a run that was never left, bit for bit.

        Raises:
            RequestError: the request does not fit the model.
            BlobError: the checkpoint is damaged, or of another engine, model or request.
            DeviceMemoryError: out of memory.
        """
        row = self._loaded.family
        blocks = create_blocks(row.blocks)
        inputs = make_block_inputs(request, blocks, row)
        stages = split(blocks, inputs)
        pipe = self._pipe(blocks, [stages[name] for name in ("encode", "denoise") if name in stages])
        state = PipelineState({**inputs, "generator": torch.Generator().manual_seed(request.seed)}, {})
        stamp = {FINGERPRINT: self.fingerprint.digest(), REQUEST: request.digest()}
        with _own_random_numbers(request.seed, self._loaded.device), memory_errors_translated():
            if "encode" in stages:
                apply_encode_guidance(pipe)
                run_stage(pipe, stages["encode"], state)
                _cast_embeddings(pipe, state)
            apply_guidance(pipe, request)
            apply_sampler(pipe, request)
            run_stage(
                pipe,
                stages["denoise"],
                state,
                on_step=on_step,
                resume=resume,
                chunk_count=row.chunk_count,
                stamp=stamp,
            )
            return pack_hand_over(state, stages, "denoise", stamp | {PRESENT: _present(inputs)})

    def _pipe(self, blocks: Blocks, stages: list[Blocks]) -> Pipe:
        stage = join(*stages)
        loaded = self._loaded
        wanted = {spec.name for spec in stage.expected_components if spec.default_creation_method == "from_pretrained"}
        lacking = sorted(wanted - set(loaded.components))
        if lacking:
            raise RequestError(
                f"these inputs need the component {', '.join(lacking)}: this model folder offers "
                f"{', '.join(loaded.tasks)} only"
            )
        return build_pipe(blocks, stage, loaded.components, configs=loaded.configs, neighbours=loaded.neighbours)


def make_block_inputs(request: GenerationInputs, blocks: Blocks, row: Family) -> dict[str, Any]:
    """The request in the words of the family's blocks. Frames leave the decode stage as tensors, hence "pt"."""
    known = set(blocks.input_names)
    unknown = sorted(set(request.extra) - known)
    if unknown:
        raise RequestError(f"this model has no input {', '.join(unknown)}")
    if request.negative_prompt and "negative_prompt" not in known:
        raise RequestError("this model takes no negative_prompt")
    names = (
        "prompt",
        "negative_prompt",
        "width",
        "height",
        "num_frames",
        "num_inference_steps",
        "guidance_scale",
    )
    inputs = {name: getattr(request, name) for name in names if name in known}
    if row.fps_input and request.fps is not None:
        inputs[row.fps_input] = float(request.fps)
    if request.generate_sound and "audio" not in row.features:
        raise RequestError("this model makes no sound")
    if request.generate_sound and row.sound_input:
        inputs[row.sound_input] = True
    inputs |= {"output_type": "pt"} | dict(request.extra)
    return {name: value for name, value in inputs.items() if value is not None}


def _present(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Which inputs were given, with the values of switches and counts, and without texts and media."""
    return {name: value if isinstance(value, (bool, int, float)) else True for name, value in inputs.items()}


def _cast_embeddings(pipe: Pipe, state: State) -> None:
    """Embeddings in the transformer's dtype, as the library's pipelines have them, where the encoder has another."""
    dtype = pipe.transformer.dtype if getattr(pipe, "transformer", None) is not None else None
    for name in state.kwargs_mapping.get("denoiser_input_fields", []):
        value = state.values.get(name)
        if dtype is not None and isinstance(value, torch.Tensor) and value.is_floating_point():
            state.values[name] = value.to(dtype)


@contextmanager
def _own_random_numbers(seed: int, device: torch.device) -> Iterator[None]:
    """A process-wide generator of this run's own: what draws from it depends on the seed, and leaves no trace."""
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield
