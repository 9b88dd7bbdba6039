"""The engine: Modular Diffusers behind one generic face.

What belongs here: everything that knows diffusers and torch, for any family of video models: stages, hand-over, the
denoise loop with its checkpoints, the stream of decoded frames, loading. What never does: events, object stores, job
records, network of any kind. Families are rows of a table (`families`); nothing else is written per family, save one
generator per VAE class in `chunkers`.

In the denoise process:

    model = DenoiseModel.load(folder, dtype=torch.bfloat16, device="cuda")
    latents = model.run(GenerationInputs(prompt="a red circle", seed=1, guidance_scale=5.0), on_step, resume)

In the decode process:

    for piece in DecodeModel.load(folder, dtype=torch.float32).stream(latents):
        ...  # DecodedAudio at most once, and first; then uint8 frames (F, H, W, 3)
"""

from vitascope.engine.decode_model import DecodeModel
from vitascope.engine.denoise_model import DenoiseModel
from vitascope.engine.errors import (
    BlobError,
    BlobFormatError,
    BlobVersionError,
    DeviceMemoryError,
    EngineError,
    ModelFolderError,
    RequestError,
    UnknownFamilyError,
)
from vitascope.engine.fingerprints import Fingerprint
from vitascope.engine.inputs import GenerationInputs
from vitascope.engine.loop import OnStep, StepReport, Stop
from vitascope.engine.stream import DecodedAudio, Frames
from vitascope.engine.tiling import Tiling

__all__ = [
    "BlobError",
    "BlobFormatError",
    "BlobVersionError",
    "DecodeModel",
    "DecodedAudio",
    "DenoiseModel",
    "DeviceMemoryError",
    "EngineError",
    "Fingerprint",
    "Frames",
    "GenerationInputs",
    "ModelFolderError",
    "OnStep",
    "RequestError",
    "StepReport",
    "Stop",
    "Tiling",
    "UnknownFamilyError",
]
