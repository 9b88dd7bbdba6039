"""Pieces of a decode, joined, against the VAE's own decode."""

from typing import Any

import diffusers
import pytest
import torch

from unit.engine.tiny_families import ltx2_vae, minimax_h3_vae, rand, tiny, wan_vae
from vitascope.engine.chunkers import chunker_for
from vitascope.engine.tiling import Tiling, decoding


def wan22_5b_vae() -> Any:
    """The VAE of Wan 2.2 5B: residual, 16 times smaller, patched."""
    return tiny(
        diffusers.AutoencoderKLWan,
        base_dim=8,
        decoder_base_dim=8,
        z_dim=4,
        dim_mult=[1] * 4,
        num_res_blocks=1,
        patch_size=2,
        is_residual=True,
        in_channels=12,
        out_channels=12,
        scale_factor_spatial=16,
        latents_mean=[0.0] * 4,
        latents_std=[1.0] * 4,
    )


CASES = {
    "wan2.1": (wan_vae, (1, 16, 3, 12, 20), [1, 4, 4], 64),
    "wan2.2-5b": (wan22_5b_vae, (1, 4, 3, 6, 10), [1, 4, 4], 64),
    "ltx2": (ltx2_vae, (1, 4, 5, 4, 6), [9, 8, 8, 8], 24),
    "ltx2-short": (ltx2_vae, (1, 4, 2, 4, 4), [9], 24),
    "minimax-h3": (minimax_h3_vae, (1, 4, 9, 4, 6), [17, 13], 48),
    "minimax-h3-padded": (minimax_h3_vae, (1, 4, 12, 2, 2), None, 48),
    "hunyuan-like-whole": (None, (1, 4, 3, 4, 4), [9], 32),
}


def hunyuan_vae() -> Any:
    return tiny(
        diffusers.AutoencoderKLHunyuanVideo15,
        latent_channels=4,
        block_out_channels=(16, 16),
        layers_per_block=1,
        spatial_compression_ratio=4,
        temporal_compression_ratio=4,
        downsample_match_channel=False,
        upsample_match_channel=False,
    )


@torch.no_grad()
@pytest.mark.parametrize("tiled", [False, True], ids=["whole", "tiled"])
@pytest.mark.parametrize("case", CASES)
def test_pieces_equal_the_whole(case: str, tiled: bool) -> None:  # noqa: FBT001 - a parametrised case
    """Joined along the frames, the pieces are the decode bit for bit, in tiles too; nothing is kept on the VAE."""
    maker, shape, frames, tile_px = CASES[case]
    vae, latents = (maker or hunyuan_vae)(), rand(*shape)
    with decoding(vae, Tiling(tile_px, tile_px * 3 // 4) if tiled else None):
        expected = vae.decode(latents).sample
        before = {name: id(value) for name, value in vars(vae).items()}
        pieces = list(chunker_for(vae)(vae, latents))
        assert before == {name: id(value) for name, value in vars(vae).items()}

    assert torch.equal(expected, torch.cat(pieces, 2))
    if frames:
        assert frames == [piece.shape[2] for piece in pieces]


def test_tiles_are_really_used() -> None:
    """Tiled and whole decode differ, so the tiled cases above compare tiles."""
    vae, latents = wan_vae(), rand(1, 16, 1, 12, 20)
    with torch.no_grad(), decoding(vae, Tiling(64, 48)):
        tiled = vae.decode(latents).sample
    with torch.no_grad():
        assert not torch.equal(vae.decode(latents).sample, tiled)


def test_pieces_come_one_by_one() -> None:
    """The first frames are there before the later latents are touched."""
    vae, latents = wan_vae(), rand(1, 16, 3, 4, 4)
    with torch.no_grad():
        pieces = chunker_for(vae)(vae, latents)
        first = next(pieces)
        latents[:, :, 1:] = float("nan")
        assert torch.isfinite(first).all()
        assert torch.isnan(next(pieces)).any()


@pytest.mark.parametrize("maker", [wan_vae, ltx2_vae, minimax_h3_vae, hunyuan_vae])
def test_settings_are_put_back(maker: Any) -> None:
    """After a tiled decode, also one that failed, a VAE has the settings it had before."""
    vae = maker()
    before = dict(vars(vae))
    with pytest.raises(RuntimeError, match="mid-stream with True"):
        fail_in_tiles(vae)

    assert before == vars(vae)


def fail_in_tiles(vae: Any) -> None:
    with decoding(vae, Tiling(32, 16)):
        raise RuntimeError(f"mid-stream with {vae.use_tiling}")


@pytest.mark.parametrize(("tile_px", "stride_px"), [(64, 64), (64, 80), (64, 0)], ids=["equal", "above", "zero"])
def test_stride_that_leaves_no_overlap_is_refused(tile_px: int, stride_px: int) -> None:
    """Tiles without an overlap would leave seams."""
    with pytest.raises(ValueError, match="does not fit"):
        Tiling(tile_px, stride_px)
