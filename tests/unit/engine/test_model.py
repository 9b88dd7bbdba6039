"""The face of the engine: requests in, bytes and frames out, and nothing left behind between jobs."""

import gc
import weakref
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import diffusers
import numpy as np
import pytest
import torch

from unit.engine import tiny_folder
from unit.engine.tiny_folder import REQUEST, theirs
from vitascope.engine import (
    BlobFormatError,
    BlobVersionError,
    DecodedAudio,
    DecodeModel,
    DenoiseModel,
    DeviceMemoryError,
    GenerationInputs,
    RequestError,
    StepReport,
    Stop,
    Tiling,
)
from vitascope.engine import denoise_model as denoise_module
from vitascope.engine.errors import memory_errors_translated
from vitascope.engine.run import unpack_hand_over


@pytest.fixture(scope="module")
def denoise(wan22_folder: Path) -> DenoiseModel:
    return DenoiseModel.load(wan22_folder, dtype=torch.float32)


@pytest.fixture(scope="module")
def decode(wan22_folder: Path) -> DecodeModel:
    return DecodeModel.load(wan22_folder, dtype=torch.float32)


@pytest.fixture(scope="module")
def sent(denoise: DenoiseModel) -> bytes:
    return denoise.run(REQUEST)


@pytest.fixture(scope="module")
def library(wan22_folder: Path) -> Any:
    # From the folder, as ours: weights at another address may be added up in another order.
    made = diffusers.WanPipeline.from_pretrained(wan22_folder)
    made.set_progress_bar_config(disable=True)
    return made


class Leave:
    """Stops after a step, keeping its checkpoint."""

    def __init__(self, step: int) -> None:
        self.step = step
        self.checkpoint = b""

    def __call__(self, report: StepReport) -> None:
        if report.step == self.step:
            self.checkpoint = report.snapshot()
            raise Stop


def latents_of(sent: bytes) -> torch.Tensor:
    latents: torch.Tensor = unpack_hand_over(sent)[0].values["latents"]
    return latents


def leave(model: DenoiseModel, request: GenerationInputs = REQUEST, step: int = 2) -> bytes:
    stopper = Leave(step)
    with pytest.raises(Stop):
        model.run(request, stopper)
    return stopper.checkpoint


def parts_of(model: DenoiseModel | DecodeModel) -> dict[str, Any]:
    """Everything that a job could change, of all that jobs share."""
    found: dict[str, Any] = {}
    for name, component in model._loaded.components.items():
        for attribute, value in vars(component).items():
            found[f"{name}.{attribute}"] = value if isinstance(value, (bool, int, float, str)) else id(value)
        if isinstance(component, torch.nn.Module):
            found |= {f"{name}.{key}": (id(w), w._version) for key, w in component.state_dict(keep_vars=True).items()}
    return found


@pytest.mark.parametrize("step", [1, 2, 3, 4])
def test_resumed_equals_uninterrupted_from_every_step(step: int, denoise: DenoiseModel, sent: bytes) -> None:
    """Left after any step, the last one too, a run ends with the same bytes."""
    assert sent == denoise.run(REQUEST, resume=leave(denoise, step=step))


def test_resumed_twice(denoise: DenoiseModel, sent: bytes) -> None:
    """A checkpoint of a resumed run is as good as one of the first."""
    second = Leave(3)
    with pytest.raises(Stop):
        denoise.run(REQUEST, second, resume=leave(denoise, step=1))

    assert sent == denoise.run(REQUEST, resume=second.checkpoint)


def test_reports_and_snapshots_change_nothing(denoise: DenoiseModel, sent: bytes) -> None:
    """A run with a checkpoint at every step gives what a run without any gives."""
    seen: list[int] = []

    def on_step(report: StepReport) -> None:
        seen.append(len(report.snapshot()) and report.step)

    assert sent == denoise.run(REQUEST, on_step)
    assert [1, 2, 3, 4] == seen


def test_process_wide_random_numbers_do_not_matter(denoise: DenoiseModel, sent: bytes) -> None:
    """A result depends on the request's seed, not on what ran before; and the process's generator is left alone."""
    torch.manual_seed(123)
    before = torch.get_rng_state()

    assert sent == denoise.run(REQUEST)
    assert torch.equal(before, torch.get_rng_state())


def test_other_seeds_give_other_latents(denoise: DenoiseModel, sent: bytes) -> None:
    """The seed reaches the noise."""
    assert not torch.equal(latents_of(sent), latents_of(denoise.run(replace(REQUEST, seed=REQUEST.seed + 1))))


@pytest.mark.parametrize("end", ["finished", "stopped", "failed"])
def test_a_job_leaves_nothing_behind(end: str, denoise: DenoiseModel, sent: bytes) -> None:
    """However a job ends, shared components are as before and the next job gets its own result."""
    before = parts_of(denoise)

    def on_step(report: StepReport) -> None:
        if report.step == 3 and end != "finished":
            raise {"stopped": Stop, "failed": ValueError}[end]

    other = replace(REQUEST, seed=9, guidance_scale=2.0, flow_shift=7.0, boundary_ratio=0.2)
    if end == "finished":
        denoise.run(other, on_step)
    else:
        with pytest.raises((Stop, ValueError)):
            denoise.run(other, on_step)

    assert before == parts_of(denoise)
    assert sent == denoise.run(REQUEST)


def test_a_jobs_pipeline_is_released(denoise: DenoiseModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded: after a job nobody holds its pipeline, and with it its schedulers and tensors."""
    made: list[weakref.ref[Any]] = []
    build = denoise_module.build_pipe

    def watched(*args: Any, **kwargs: Any) -> Any:
        pipe = build(*args, **kwargs)
        made.append(weakref.ref(pipe))
        return pipe

    monkeypatch.setattr(denoise_module, "build_pipe", watched)
    denoise.run(REQUEST)
    gc.collect()

    assert [None] == [reference() for reference in made]


@pytest.mark.parametrize(
    "change",
    [
        {"guidance_scale": 1.0},
        {"guidance_scale": 0.0},
        {"guidance_scale": 6.5, "guidance_scale_2": None},
        {"negative_prompt": None},
        {"num_frames": 1},
        {"height": 32, "width": 48},
    ],
    ids=["off", "zero", "one-scale", "no-negative", "one-frame", "wide"],
)
def test_equals_the_librarys_pipeline(change: dict[str, Any], denoise: DenoiseModel, library: Any) -> None:
    """Whatever the guidance and size, latents are those of WanPipeline.

    Scales up to 1 mean no guidance there; so they do here, though the blocks alone would fail without negative
    embeddings at 1, and guide backwards at 0.
    """
    request = replace(REQUEST, **change)
    if change.get("guidance_scale", 2) <= 1:  # the pipeline then guides neither transformer
        request = replace(request, guidance_scale_2=request.guidance_scale)

    assert torch.equal(theirs(library, request, "latent"), latents_of(denoise.run(request)))


def test_guidance_is_never_the_blocks_default(denoise: DenoiseModel) -> None:
    """The blocks' defaults of Wan 2.2 contradict each other, so a request without a scale is refused."""
    with pytest.raises(RequestError, match="guidance_scale must be given"):
        denoise.run(replace(REQUEST, guidance_scale=None))


@pytest.mark.parametrize(
    "change", [{"flow_shift": 9.0}, {"boundary_ratio": 0.1}], ids=lambda change: next(iter(change))
)
def test_sampler_settings_reach_the_sampler(change: dict[str, float], denoise: DenoiseModel, library: Any) -> None:
    """flow_shift and boundary_ratio do what a pipeline configured with them does."""
    library.register_to_config(**{name: value for name, value in change.items() if name == "boundary_ratio"})
    scheduler = library.scheduler
    library.scheduler = type(scheduler).from_config(
        scheduler.config, **{name: value for name, value in change.items() if name == "flow_shift"}
    )
    try:
        expected = theirs(library, REQUEST, "latent")
    finally:
        library.scheduler = scheduler
        library.register_to_config(boundary_ratio=tiny_folder.BOUNDARY)

    assert torch.equal(expected, latents_of(denoise.run(replace(REQUEST, **change))))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"width": 17}, "divisible by 8"),
        ({"num_frames": 6}, "num_frames"),
        ({"extra": {"image": 1}}, "no input image"),
        ({"extra": {"temperature": 1.0}}, "no input temperature"),
    ],
    ids=["width", "frames", "image", "unknown"],
)
def test_request_that_does_not_fit_is_refused(change: dict[str, Any], message: str, denoise: DenoiseModel) -> None:
    """What the model cannot do is the request's fault, and is said before any step."""
    steps: list[StepReport] = []
    with pytest.raises(RequestError, match=message):
        denoise.run(replace(REQUEST, **change), steps.append)

    assert [] == steps


@pytest.mark.parametrize(
    "change", [{"seed": 4}, {"prompt": "a blue circle"}, {"num_inference_steps": 5}], ids=["seed", "prompt", "steps"]
)
def test_checkpoint_of_another_request_is_refused(change: dict[str, Any], denoise: DenoiseModel) -> None:
    """A mix of two requests would be a video of neither."""
    with pytest.raises(BlobVersionError, match="made with request"):
        denoise.run(replace(REQUEST, **change), resume=leave(denoise))


def test_checkpoint_of_another_engine_is_refused(denoise: DenoiseModel, wan22_folder: Path) -> None:
    """Another dtype would not go on bit for bit."""
    other = DenoiseModel.load(wan22_folder, dtype=torch.bfloat16)
    with pytest.raises(BlobVersionError, match="made with fingerprint"):
        other.run(REQUEST, resume=leave(denoise))


def test_hand_over_is_no_checkpoint(denoise: DenoiseModel, sent: bytes) -> None:
    """Each kind of blob is taken only where it belongs."""
    with pytest.raises(BlobFormatError, match="expected a blob of kind 'checkpoint'"):
        denoise.run(REQUEST, resume=sent)


def test_checkpoint_is_no_hand_over(denoise: DenoiseModel, decode: DecodeModel) -> None:
    """Nor the other way round."""
    with pytest.raises(BlobFormatError, match="expected a blob of kind 'latents'"):
        list(decode.stream(leave(denoise)))


def test_decode_leaves_nothing_behind(decode: DecodeModel, sent: bytes) -> None:
    """After a stream, a tiled one, and one that its reader left, the VAE is as it was."""
    before = parts_of(decode)
    expected = np.concatenate(frames_of(decode.stream(sent)))
    abandoned = decode.stream(sent, Tiling(16, 8))
    next(abandoned)
    abandoned.close()

    assert expected.shape == np.concatenate(frames_of(decode.stream(sent, Tiling(16, 8)))).shape
    assert before == parts_of(decode)
    assert np.array_equal(expected, np.concatenate(frames_of(decode.stream(sent))))


def test_tiles_change_memory_not_shape(denoise: DenoiseModel, decode: DecodeModel) -> None:
    """A tiled decode gives as many frames of the same size, near those of the whole decode."""
    wide = denoise.run(replace(REQUEST, height=32, width=48))
    whole, tiled = (np.concatenate(frames_of(decode.stream(wide, tiling))) for tiling in (None, Tiling(32, 24)))

    assert (5, 32, 48, 3) == whole.shape == tiled.shape
    assert not np.array_equal(whole, tiled)
    assert np.abs(whole.astype(int) - tiled.astype(int)).mean() < 16


def test_one_stream_at_a_time(decode: DecodeModel, sent: bytes) -> None:
    """Two streams would share one VAE's settings; the second is our bug."""
    first = decode.stream(sent)
    next(first)
    with pytest.raises(AssertionError, match="one stream"):
        next(decode.stream(sent))
    first.close()

    assert 5 == sum(map(len, frames_of(decode.stream(sent))))


def test_fingerprints_of_both_processes_agree(denoise: DenoiseModel, decode: DecodeModel) -> None:
    """The same folder, dtype and device is the same engine in both."""
    assert denoise.fingerprint == decode.fingerprint
    assert denoise.family == decode.family == "wan2.2-t2v"
    assert ("t2v",) == denoise.tasks


def test_fps_reaches_only_families_that_have_it(denoise: DenoiseModel, sent: bytes) -> None:
    """Wan is not conditioned on the frame rate: giving one changes nothing of the latents."""
    assert torch.equal(latents_of(sent), latents_of(denoise.run(replace(REQUEST, fps=Fraction(24)))))


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("[enforce] DefaultCPUAllocator: can't allocate memory"),
    ],
    ids=["accelerator", "cpu"],
)
def test_memory_errors_have_one_type(error: RuntimeError) -> None:
    """What a device says in its own way becomes one error, with its cause."""
    with pytest.raises(DeviceMemoryError) as caught, memory_errors_translated():
        raise error

    assert error is caught.value.__cause__


def test_other_runtime_errors_pass() -> None:
    """Only memory is translated."""
    with pytest.raises(RuntimeError, match="shapes"), memory_errors_translated():
        raise RuntimeError("shapes do not match")


def test_memory_error_inside_a_step_is_translated(denoise: DenoiseModel, sent: bytes) -> None:
    """A job that does not fit ends with our error, and the next one runs."""

    def on_step(_: StepReport) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    with pytest.raises(DeviceMemoryError):
        denoise.run(REQUEST, on_step)
    assert sent == denoise.run(REQUEST)


def frames_of(stream: Iterator[Any]) -> list[Any]:
    return [piece for piece in stream if not isinstance(piece, DecodedAudio)]
