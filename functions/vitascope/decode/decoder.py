"""The engine as the decode handler sees it. `wiring` puts the real one behind it."""

from collections.abc import Generator
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Frames: TypeAlias = NDArray[np.uint8]
"""RGB, (F, H, W, 3), C-contiguous."""


class Sound(Protocol):
    """The decoded sound of a whole clip."""

    @property
    def samples(self) -> NDArray[np.float32]:
        """(channels, n), C-contiguous, nominally -1 to 1."""
        ...

    @property
    def sample_rate_hz(self) -> int:
        """Samples a second."""
        ...


class Decoder(Protocol):
    """Turns latents into frames, one clip at a time. Blocking; used from one thread only."""

    def stream(self, model: str, blob: bytes, tile_px: int | None) -> Generator[Sound | Frames, None, None]:
        """The sound, if there is any, and then the frames in order, as they are decoded. May be closed early.

        Args:
            model: a model that this process has loaded.
            blob: what the denoise stage stored as latents.
            tile_px: side of square tiles in pixels, which need less memory; None decodes whole frames.

        Raises:
            MemoryError: the device has too little memory; any error whose class is named so counts as well.
            VitascopeError: `model_not_found`, or whatever else went wrong.
        """
        ...

    def prove(self) -> None:
        """Decode zeros of the smallest shape with every model that this process has loaded.

        Raises:
            Exception: a model does not work any more.
        """
        ...
