"""The real decoder: `vitascope.engine` models by name."""

from collections.abc import Generator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import cast

from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.decode.decoder import Frames, Sound
from vitascope.engine.decode_model import DecodeModel
from vitascope.engine.errors import BlobError, DeviceMemoryError
from vitascope.engine.tiling import Tiling

STRIDE_SHARE = 0.75
"""Tiles overlap by a quarter, as the library's own defaults do (192 of 256 px)."""


@dataclass(frozen=True)
class ModularDecoder:
    """A `Decoder` over the models that this process has loaded."""

    models: Mapping[str, DecodeModel]

    def stream(self, model: str, blob: bytes, tile_px: int | None) -> Generator[Sound | Frames, None, None]:
        """See `Decoder`."""
        if model not in self.models:
            raise VitascopeError(FailureCode.MODEL_NOT_FOUND, f"This decode process has not loaded {model}.")
        tiling = Tiling(tile_px, int(tile_px * STRIDE_SHARE)) if tile_px else None
        try:
            # The engine's iterator is a generator: closing it puts the VAE's settings back at once.
            pieces = cast("Generator[Sound | Frames, None, None]", self.models[model].stream(blob, tiling))
            with closing(pieces):
                yield from pieces
        except BlobError as error:
            raise VitascopeError(FailureCode.OBJECT_CORRUPT, str(error)) from error
        except DeviceMemoryError as error:
            raise MemoryError(str(error)) from error

    def prove(self) -> None:
        """See `Decoder`."""
        for model in self.models.values():
            model.prove()
