"""A model in the decode process: VAE and vocoder, from latents to frames and sound."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import torch

from vitascope.engine.chunkers import chunker_for
from vitascope.engine.denoise_model import PRESENT
from vitascope.engine.errors import BlobFormatError, memory_errors_translated
from vitascope.engine.fingerprints import Fingerprint
from vitascope.engine.loading import Dtypes, LoadedStages, load_stages
from vitascope.engine.pipes import build_pipe
from vitascope.engine.run import unpack_hand_over
from vitascope.engine.stages import create_blocks, split
from vitascope.engine.stream import DecodedAudio, Frames, stream_decoded
from vitascope.engine.tiling import Tiling, decoding

PROOF_LATENTS = 4
"""Side of the latents that are decoded as a proof: even the VAE with the coarsest patches takes them."""


class DecodeModel:
    """One model folder, loaded for decoding. One stream at a time: a VAE's settings are the job's while it runs."""

    def __init__(self, loaded: LoadedStages) -> None:
        self._loaded = loaded
        self._busy = False

    @classmethod
    def load(
        cls, folder: Path, *, dtype: Dtypes, device: str = "cpu", configs: Mapping[str, Any] | None = None
    ) -> Self:
        """Loads the decode stage of a model folder in diffusers layout. See `load_stages` for errors."""
        return cls(load_stages(folder, ("decode",), dtype=dtype, device=torch.device(device), configs=configs))

    @property
    def family(self) -> str:
        """Our name of the model family."""
        return self._loaded.family.name

    @property
    def fingerprint(self) -> Fingerprint:
        """Equal fingerprints give equal bits for equal latents."""
        return self._loaded.fingerprint

    def stream(self, hand_over: bytes, tiling: Tiling | None = None) -> Iterator[DecodedAudio | Frames]:
        """Yields the sound, if there is any, and then the frames, uint8 (frames, H, W, 3), as they are decoded.

        Leaving the iterator early is fine; close it, or drop it, before the next stream begins.

        Args:
            hand_over: what `DenoiseModel.run` returned, of the same model folder and library versions.
            tiling: decode in tiles; None decodes each frame in one piece.

        Raises:
            BlobError: the hand-over is damaged or from other versions.
            DeviceMemoryError: out of memory; the same hand-over can be tried again in smaller tiles.
        """
        assert not self._busy, "one stream at a time"
        self._busy = True
        try:
            yield from self._stream(hand_over, tiling)
        finally:
            self._busy = False

    @torch.no_grad()
    def prove(self) -> None:
        """Decodes zeros, 4 x 4 and mostly one latent frame: less than any job, on the same way.

        A process without a VAE, whose pixels come from the denoise stage, has nothing to prove.

        Raises:
            DeviceMemoryError: out of memory.
        """
        vae = self._loaded.components.get("vae")
        if vae is None:
            return
        channels = vae.config.get("z_dim") or vae.config["latent_channels"]
        # MiniMax-H3 decodes clips of so many latent frames, each with a part of the next.
        frames = getattr(vae, "tokens_chunk_size", 0) + 1
        shape = (1, channels, frames, PROOF_LATENTS, PROOF_LATENTS)
        zeros = torch.zeros(shape, dtype=vae.dtype, device=self._loaded.device)
        with memory_errors_translated(), decoding(vae, None):
            for pixels in chunker_for(vae)(vae, zeros):
                pixels.cpu()  # what runs on a GPU has only run once its result is here

    def _stream(self, hand_over: bytes, tiling: Tiling | None) -> Iterator[DecodedAudio | Frames]:
        loaded = self._loaded
        state, stamp = unpack_hand_over(hand_over)
        present = stamp.get(PRESENT)
        if not isinstance(present, dict):
            raise BlobFormatError("the hand-over does not say which inputs it was made from")
        blocks = create_blocks(loaded.family.blocks)
        stage = split(blocks, present)["decode"]
        lacking = sorted({param.name for param in stage.inputs if param.required} - set(state.values))
        if lacking:
            raise BlobFormatError(f"the hand-over lacks {', '.join(lacking)}: it is of another model family")
        pipe = build_pipe(blocks, stage, loaded.components, configs=loaded.configs, neighbours=loaded.neighbours)
        state.values.update({name: _moved(value, loaded.device) for name, value in state.values.items()})
        with memory_errors_translated(), decoding(loaded.components.get("vae"), tiling):
            yield from stream_decoded(pipe, stage, state, audio_rate=loaded.family.audio_rate)


def _moved(value: Any, device: torch.device) -> Any:
    """Tensors on the device, wherever the denoise process had them."""
    if isinstance(value, torch.Tensor):
        return value.to(device)
    return [_moved(item, device) for item in value] if isinstance(value, list) else value
