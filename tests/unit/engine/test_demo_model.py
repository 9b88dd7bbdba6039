"""The demo model that ships in the package: a trained Wan 2.1, from its folder to pictures."""

from importlib.resources import files
from pathlib import Path
from typing import Any

import diffusers
import numpy as np
import pytest
import torch

from unit.engine.tiny_folder import theirs
from vitascope.engine import DecodeModel, DenoiseModel, GenerationInputs, StepReport, Stop
from vitascope.engine.run import unpack_hand_over

REQUEST = GenerationInputs(
    prompt="a red circle moving right on a white background",
    seed=7,
    width=64,
    height=64,
    num_frames=9,
    num_inference_steps=6,
    guidance_scale=4.0,
)


@pytest.fixture(scope="module")
def folder() -> Path:
    return Path(str(files("vitascope.demo_model"))) / "model"


@pytest.fixture(scope="module")
def denoise(folder: Path) -> DenoiseModel:
    return DenoiseModel.load(folder, dtype=torch.float32)


@pytest.fixture(scope="module")
def sent(denoise: DenoiseModel) -> bytes:
    return denoise.run(REQUEST)


@pytest.fixture(scope="module")
def library(folder: Path) -> Any:
    made = diffusers.WanPipeline.from_pretrained(folder)
    made.set_progress_bar_config(disable=True)
    return made


def test_latents_equal_wan_pipeline(library: Any, sent: bytes) -> None:
    """Same seed and parameters, on the CPU: the final latents are WanPipeline's, bit for bit."""
    assert torch.equal(theirs(library, REQUEST, "latent"), unpack_hand_over(sent)[0].values["latents"])


def test_frames_equal_wan_pipeline(folder: Path, library: Any, sent: bytes) -> None:
    """The streamed frames are WanPipeline's pictures, to the last byte."""
    pictures: Any = theirs(library, REQUEST, "np")[0]
    stream = DecodeModel.load(folder, dtype=torch.float32).stream(sent)

    assert np.array_equal((pictures * 255).round().astype(np.uint8), np.concatenate(list(stream)))


def test_resumed_run_equals_uninterrupted(denoise: DenoiseModel, sent: bytes) -> None:
    """Stopped at the third of six steps and gone on with, the hand-over is the same to the last byte."""
    saved: list[bytes] = []

    def stop(report: StepReport) -> None:
        if report.step == 3:
            saved.append(report.snapshot())
            raise Stop

    with pytest.raises(Stop):
        denoise.run(REQUEST, stop)

    assert sent == denoise.run(REQUEST, resume=saved[0])
