"""Decodes latents piece by piece, one generator a VAE class: (vae, latents) -> pixel tensors (1, C, frames, H, W).

Joined along the frames, the pieces equal what the VAE's own `decode` gives, bit for bit, with and without tiling.
Nothing is kept on the VAE between pieces. Classes without a generator here are decoded whole: HunyuanVideo 1.5 takes
all frames at once, and LTX 0.9 is not used for long videos.

Private surface of diffusers used here: `decoder(feat_cache=, feat_idx=, first_chunk=)` and the `blend_*` functions of
the Wan VAE, `_decode` of the LTX-2 VAE, `_decode_clip` and `_blend` of the MiniMax-H3 VAE.
"""
# ruff: noqa: SLF001 - see above

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from vitascope.engine.library import Component, unpatchify
from vitascope.engine.replace import replaced

Cache: TypeAlias = list[torch.Tensor | None]  # of one tile: the last frames seen by each causal convolution


def wan_chunks(vae: Component, latents: torch.Tensor) -> Iterator[torch.Tensor]:
    """1, then 4 and 4 frames: one latent frame at a time through the causal cache; a cache a tile where tiled."""
    grid = _wan_grid(vae, latents.shape[-2], latents.shape[-1])
    convolutions = sum(type(module).__name__ == "WanCausalConv3d" for module in vae.decoder.modules())
    caches: dict[tuple[int, int], Cache] = {spot: [None] * convolutions for row in grid.spots for spot in row}
    patch = vae.config.patch_size or 1
    for frame in range(latents.shape[2]):
        above: list[torch.Tensor] = []
        rows = []
        for spots in grid.spots:
            row = [_wan_tile(vae, latents, grid, spot=spot, cache=caches[spot], frame=frame) for spot in spots]
            for column, tile in enumerate(row):
                if above:
                    vae.blend_v(above[column], tile, grid.blend_height)
                if column:
                    vae.blend_h(row[column - 1], tile, grid.blend_width)
            rows.append(torch.cat([tile[..., : grid.keep_height, : grid.keep_width] for tile in row], -1))
            above = row
        pixels = torch.cat(rows, 3)[..., : grid.height, : grid.width]
        yield (unpatchify(pixels, patch) if patch > 1 else pixels).clamp(-1, 1)


def ltx2_chunks(vae: Component, latents: torch.Tensor, *args: Any, **kwargs: Any) -> Iterator[torch.Tensor]:
    """9, then 8 and 8 frames: temporal tiles, each cross-faded into the next.

    Equal to `decode` with `use_framewise_decoding`, which is how this VAE must be decoded to be streamed: it is not
    causal, and one pass over all frames gives other pixels.
    """
    ratio = vae.temporal_compression_ratio
    size, stride = vae.tile_sample_min_num_frames, vae.tile_sample_stride_num_frames
    if latents.shape[2] <= size // ratio:
        yield vae._decode(latents, *args, **kwargs).sample
        return
    left = (latents.shape[2] - 1) * ratio + 1
    previous: torch.Tensor | None = None
    for start in range(0, latents.shape[2], stride // ratio):
        with replaced(vae, "use_framewise_decoding", value=False):
            tile = vae._decode(latents[:, :, start : start + size // ratio + 1], *args, **kwargs).sample
        if previous is None:
            frames = stride + 1
        else:
            tile, frames = vae.blend_t(previous, tile[:, :, :-1], size - stride), stride
        piece = tile[:, :, : min(left, frames)]
        previous = tile
        left -= piece.shape[2]
        if piece.shape[2]:
            yield piece


def minimax_h3_chunks(vae: Component, latents: torch.Tensor) -> Iterator[torch.Tensor]:
    """17 and 17 frames, then the rest: clips of `tokens_chunk_size` latent frames, each cross-faded into the next."""
    size, drop, ratio = vae.tokens_chunk_size, vae.config.token_drop, vae.temporal_compression_ratio
    frames = latents.shape[2]
    padding = -(frames + drop) % size
    latents = torch.cat([latents] + [latents[:, :, -1:]] * padding, 2)
    overlap: torch.Tensor | None = None
    ready: list[torch.Tensor] = []
    for clip in range((frames + padding + drop) // size - (drop > 0)):
        pixels = vae._decode_clip(latents[:, :, clip * size : (clip + 1) * size + vae.token_overlap])
        head, tail = (
            pixels[:, :, part * size * ratio : (part + 1) * size * ratio][:, :, vae.frame_pre_padding :]
            for part in (0, 1)
        )
        yield from ready  # one clip behind, so that the padding can be cut off the last one
        ready = [head if overlap is None else vae._blend(overlap, head, vae.frame_overlap, dim=-3)]
        overlap = tail if drop else None
    last = torch.cat([*ready, overlap] if overlap is not None else ready, 2)
    yield last[:, :, : last.shape[2] - _h3_padding_frames(vae, frames, padding)]


Chunker: TypeAlias = Callable[..., Iterator[torch.Tensor]]
CHUNKERS: dict[str, Chunker] = {
    "AutoencoderKLWan": wan_chunks,
    "AutoencoderKLLTX2Video": ltx2_chunks,
    "AutoencoderKLMiniMaxH3": minimax_h3_chunks,
}


def whole(vae: Component, latents: torch.Tensor, *args: Any, **kwargs: Any) -> Iterator[torch.Tensor]:
    """All frames at once."""
    yield vae.decode(latents, *args, **kwargs).sample


def chunker_for(vae: Component) -> Chunker:
    """How this VAE is decoded."""
    return CHUNKERS.get(type(vae).__name__, whole)


@dataclass(frozen=True)
class _Grid:
    """Where the tiles of one frame lie. Spots and tile sizes in latent pixels, the rest in decoder pixels."""

    spots: list[list[tuple[int, int]]]
    tile_height: int
    tile_width: int
    keep_height: int
    keep_width: int
    blend_height: int
    blend_width: int
    height: int
    width: int


def _wan_grid(vae: Component, height: int, width: int) -> _Grid:
    ratio, patch = vae.spatial_compression_ratio, vae.config.patch_size or 1
    tile_height, tile_width = vae.tile_sample_min_height, vae.tile_sample_min_width
    stride_height, stride_width = vae.tile_sample_stride_height, vae.tile_sample_stride_width
    if not (vae.use_tiling and (width > tile_width // ratio or height > tile_height // ratio)):
        tile_height = stride_height = height * ratio
        tile_width = stride_width = width * ratio
    return _Grid(
        spots=[
            [(row, column) for column in range(0, width, stride_width // ratio)]
            for row in range(0, height, stride_height // ratio)
        ],
        tile_height=tile_height // ratio,
        tile_width=tile_width // ratio,
        keep_height=stride_height // patch,
        keep_width=stride_width // patch,
        blend_height=tile_height // patch - stride_height // patch,
        blend_width=tile_width // patch - stride_width // patch,
        height=height * ratio // patch,
        width=width * ratio // patch,
    )


def _wan_tile(
    vae: Component,
    latents: torch.Tensor,
    grid: _Grid,
    *,
    spot: tuple[int, int],
    cache: Cache,
    frame: int,
) -> torch.Tensor:
    row, column = spot
    part = latents[:, :, frame : frame + 1, row : row + grid.tile_height, column : column + grid.tile_width]
    decoded: torch.Tensor = vae.decoder(
        vae.post_quant_conv(part), feat_cache=cache, feat_idx=[0], first_chunk=frame == 0
    )
    return decoded


def _h3_padding_frames(vae: Component, frames: int, padding: int) -> int:
    """Pixel frames that the repeated latent frames at the end gave: the last of a clip covers fewer than the others."""
    size, ratio = vae.tokens_chunk_size, vae.temporal_compression_ratio
    tail = vae.config.clip_length % ratio
    return sum(tail if tail and (frames + extra) % size == 0 else ratio for extra in range(padding))
