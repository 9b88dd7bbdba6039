"""Image to video from a folder: the picture is encoded in the denoise process, by the family's own encoder block."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import diffusers
import PIL.Image
import pytest
import torch

from unit.engine import tiny_folder
from vitascope.engine import DenoiseModel, RequestError, StepReport, Stop
from vitascope.engine.run import unpack_hand_over

PICTURE = PIL.Image.linear_gradient("L").resize((32, 32)).convert("RGB")
REQUEST = replace(tiny_folder.REQUEST, width=32, height=32, extra={"image": PICTURE})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "i2v"
    tiny_folder.save_i2v(path)
    return path


@pytest.fixture(scope="module")
def model(folder: Path) -> DenoiseModel:
    return DenoiseModel.load(folder, dtype=torch.float32)


def test_latents_equal_the_librarys_pipeline(folder: Path, model: DenoiseModel) -> None:
    """Wan 2.2 image to video from disk: text, picture and loop give WanImageToVideoPipeline's latents."""
    library: Any = diffusers.WanImageToVideoPipeline.from_pretrained(folder)
    library.set_progress_bar_config(disable=True)
    expected = library(
        image=PICTURE,
        prompt=REQUEST.prompt,
        negative_prompt=REQUEST.negative_prompt,
        height=REQUEST.height,
        width=REQUEST.width,
        num_frames=REQUEST.num_frames,
        num_inference_steps=REQUEST.num_inference_steps,
        guidance_scale=REQUEST.guidance_scale,
        guidance_scale_2=REQUEST.guidance_scale_2,
        generator=torch.Generator().manual_seed(REQUEST.seed),
        output_type="latent",
    ).frames

    assert torch.equal(expected, unpack_hand_over(model.run(REQUEST))[0].values["latents"])


def test_resumed_equals_uninterrupted(model: DenoiseModel) -> None:
    """The picture is encoded again and the loop goes on: the same bytes."""
    saved: list[bytes] = []

    def stop(report: StepReport) -> None:
        if report.step == 2:
            saved.append(report.snapshot())
            raise Stop

    with pytest.raises(Stop):
        model.run(REQUEST, stop)

    assert model.run(REQUEST) == model.run(REQUEST, resume=saved[0])


def test_other_picture_other_latents(model: DenoiseModel) -> None:
    """The picture matters."""
    other = replace(REQUEST, extra={"image": PICTURE.transpose(PIL.Image.Transpose.ROTATE_90)})

    assert model.run(REQUEST) != model.run(other)


def test_missing_picture_is_the_requests_fault(model: DenoiseModel) -> None:
    """Image to video without an image is refused before any step."""
    with pytest.raises(RequestError):
        model.run(replace(REQUEST, extra={}))
