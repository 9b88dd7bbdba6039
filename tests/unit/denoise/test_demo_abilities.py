"""The demo model keeps what its entry promises."""

import pytest
import torch

from records import video_request
from vitascope.catalog.demo import make_demo_entry
from vitascope.demo_model import DEMO_MODEL_DIR
from vitascope.denoise.extras import check_declared
from vitascope.denoise.modular import ModularDenoiser
from vitascope.engine.denoise_model import DenoiseModel
from vitascope.engine.run import unpack_hand_over


@pytest.fixture(scope="module")
def demo() -> DenoiseModel:
    """The model that ships, loaded."""
    return DenoiseModel.load(DEMO_MODEL_DIR, dtype=torch.float32)


def test_its_blocks_have_what_is_promised(demo: DenoiseModel) -> None:
    """As every denoise process asks at its start."""
    check_declared(make_demo_entry(), demo.input_names)


def test_flow_shift_changes_the_video(demo: DenoiseModel) -> None:
    """Its own value, 3, changes nothing; another does."""
    assert make_demo_entry().capabilities.has_flow_shift
    denoiser = ModularDenoiser({"tiny-wan": demo})
    plain, same, other = (
        denoiser.run(video_request(num_frames=5, num_inference_steps=2, flow_shift=shift), (), lambda *_: None, None)
        for shift in (None, 3.0, 8.0)
    )
    assert len(plain) == len(same) == len(other)
    assert _latents(plain) == _latents(same) != _latents(other)


def _latents(blob: bytes) -> list[float]:
    latents: torch.Tensor = unpack_hand_over(blob)[0].values["latents"]
    return latents.flatten().tolist()
