"""Decoding in tiles: less memory at a time, more time, the same latents."""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from vitascope.engine.library import Component

SETTINGS = ("use_", "tile_")  # how all video VAEs of diffusers name them


@dataclass(frozen=True)
class Tiling:
    """Square tiles for the VAE.

    Attributes:
        tile_px: side of a tile in pixels of the video.
        stride_px: distance from tile to tile, less than `tile_px`: what is between is cross-faded.
    """

    tile_px: int
    stride_px: int

    def __post_init__(self) -> None:
        if not 0 < self.stride_px < self.tile_px:
            raise ValueError(f"a stride of {self.stride_px} px does not fit a tile of {self.tile_px} px")


@contextmanager
def decoding(vae: Component | None, tiling: Tiling | None) -> Iterator[None]:
    """Sets a VAE up for one streamed decode, and puts its settings back as they were afterwards.

    Sizes are rounded down to whole latent pixels. With `tiling` None the VAE's own settings stay, save that a VAE with
    temporal tiles uses them, because without them it could not be streamed.
    """
    if vae is None:
        yield
        return
    before = {name: value for name, value in vars(vae).items() if name.startswith(SETTINGS)}
    try:
        if tiling:
            vae.enable_tiling(**_arguments(vae, tiling))
        if type(vae).__name__ == "AutoencoderKLLTX2Video":
            vae.use_framewise_decoding = True
        yield
    finally:
        vae.__dict__.update(before)


def _arguments(vae: Component, tiling: Tiling) -> dict[str, float]:
    """`enable_tiling` takes the stride as a stride, an overlap or a share of the tile, depending on the class."""
    ratio = vae.spatial_compression_ratio
    tile, stride = (max(1, size // ratio) * ratio for size in (tiling.tile_px, tiling.stride_px))
    offered: dict[str, float] = {"tile_overlap_factor": (tile - stride) / tile}
    for side in ("height", "width"):
        offered |= {
            f"tile_sample_min_{side}": tile,
            f"tile_sample_stride_{side}": stride,
            f"tile_sample_min_overlap_{side}": tile - stride,
            f"tile_latent_min_{side}": tile // ratio,
        }
    taken = inspect.signature(vae.enable_tiling).parameters
    return {name: value for name, value in offered.items() if name in taken}
