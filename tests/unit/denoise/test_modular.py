"""The real denoiser's way from a request to the engine: every field arrives, masks as arrays, media not unseen."""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, cast

import numpy as np

from able import EDIT_BUCKET, make_reference
from records import video_request
from vitascope.contracts.jobs import ReferenceRole, VideoRequest
from vitascope.contracts.models import LatentEdit
from vitascope.denoise.modular import ModularDenoiser
from vitascope.engine.denoise_model import DenoiseModel
from vitascope.engine.inputs import GenerationInputs


@dataclass
class Recorder:
    """Keeps what it is asked to make."""

    inputs: list[GenerationInputs] = field(default_factory=list)
    input_names: frozenset[str] = frozenset()

    def run(self, inputs: GenerationInputs, *_: object) -> bytes:
        """Makes nothing."""
        self.inputs.append(inputs)
        return b"latents"


def _run(request: VideoRequest, *references: bytes, edits: dict[str, LatentEdit] | None = None) -> GenerationInputs:
    recorder = Recorder()
    denoiser = ModularDenoiser({"tiny-wan": cast("DenoiseModel", recorder)}, edits or {})
    assert b"latents" == denoiser.run(request, references, lambda *_: None, None)
    return recorder.inputs[0]


def test_every_number_of_a_request_arrives() -> None:
    """Those of abilities too."""
    wished: dict[str, Any] = {
        "guidance_scale_2": 3.0,
        "flow_shift": 5.0,
        "boundary_ratio": 0.9,
        "generate_sound": True,
        "fps": Fraction(24000, 1001),
    }
    inputs = _run(video_request(**wished, true_cfg_scale=2.0, extra_params={"strength": 0.5}))
    assert wished == {name: getattr(inputs, name) for name in wished}
    assert {"true_cfg_scale": 2.0, "strength": 0.5} == dict(inputs.extra)


def test_a_model_with_masks_gets_both() -> None:
    """As arrays, and the request's digest knows them apart."""
    request = video_request(
        width=EDIT_BUCKET.width,
        height=EDIT_BUCKET.height,
        num_frames=EDIT_BUCKET.num_frames,
        references=(make_reference(ReferenceRole.VIDEO_MASK),),
    )
    inputs = _run(request, b"0.001", edits={"tiny-wan": LatentEdit()})
    assert {"video_mask", "video_restore_mask"} == inputs.extra.keys()
    assert {np.float32(1 / 256)} == set(inputs.extra["video_mask"])
    assert {np.float32(0.001)} == set(inputs.extra["video_restore_mask"].reshape(-1))
    other = _run(request, b"0.002", edits={"tiny-wan": LatentEdit()})
    assert inputs.extra["video_mask"].tolist() == other.extra["video_mask"].tolist()
    assert inputs.digest() != other.digest()
