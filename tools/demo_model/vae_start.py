"""Start values of the autoencoder: a linear one that passes the mean colour of every patch from the first step.

From the stock values, 150 steps reach 13 dB; from these, 10 steps reach 16 dB and 200 reach 19 dB. Along the chain of
shortcuts and resampling convolutions, channels 0..2 carry red, green and blue, and 3..5 their negatives wherever a
SiLU follows, as silu(x) - silu(-x) = x. All other channels start as random features, residual branches at zero.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import torch
from diffusers import AutoencoderKLWan
from diffusers.models.autoencoders import autoencoder_kl_wan as kinds
from torch import nn

VAE_CONFIG: Final = {
    "base_dim": 8,
    "decoder_base_dim": 8,
    "z_dim": 16,
    "dim_mult": [1, 2, 4, 6],
    "num_res_blocks": 1,
    "temperal_downsample": [False, True, True],
}

Tap = tuple[int, ...]
Wiring = Mapping[int, tuple[int, float]]  # output channel: (input channel, sign)

COLOURS: Final[Wiring] = {c: (c, 1.0) for c in range(3)}
BOTH_SIGNS: Final[Wiring] = {**COLOURS, **{c + 3: (c, -1.0) for c in range(3)}}
NOW_3D: Final[list[Tap]] = [(2, 1, 1)]  # causal: the last tap in time is the present frame
NOW_2D: Final[list[Tap]] = [(1, 1)]
POINT: Final[list[Tap]] = [(0, 0, 0)]
MEAN_2X2: Final[list[Tap]] = [(0, 0), (0, 1), (1, 0), (1, 1)]
MEAN_2_FRAMES: Final[list[Tap]] = [(1, 0, 0), (2, 0, 0)]


def build_vae() -> AutoencoderKLWan:
    """A new autoencoder with these start values (random ones from torch's global generator)."""
    vae = AutoencoderKLWan(**VAE_CONFIG)
    for module in vae.modules():
        if isinstance(module, nn.Conv2d | nn.Conv3d):
            nn.init.normal_(module.weight, std=module.weight[0].numel() ** -0.5)
            nn.init.zeros_(module.bias)
    for module in vae.modules():
        _start_block(module)
    _start_ends(vae)
    return vae


def _carry(conv: nn.Module, taps: Iterable[Tap], wiring: Wiring = COLOURS) -> None:
    """Make the wired output channels the signed mean of one input channel over the taps, and nothing else."""
    taps, weight = list(taps), conv.weight.data
    for out, (source, sign) in wiring.items():
        weight[out] = 0
        for tap in taps:
            weight[(out, source, *tap)] = sign / len(taps)


def _start_block(module: nn.Module) -> None:
    if isinstance(module, kinds.WanResidualBlock):
        nn.init.zeros_(module.conv2.weight)
        if module.in_dim != module.out_dim:
            _carry(module.conv_shortcut, POINT)
    elif isinstance(module, kinds.WanAttentionBlock):
        nn.init.zeros_(module.proj.weight)
    elif isinstance(module, kinds.WanResample):
        _carry(module.resample[1], MEAN_2X2 if module.mode.startswith("down") else NOW_2D)
        if module.mode == "downsample3d":
            _carry(module.time_conv, MEAN_2_FRAMES)
        elif module.mode == "upsample3d":  # channels c and dim + c are the two frames that one becomes
            twice = {c + half: (c, 1.0) for c in range(3) for half in (0, module.dim)}
            _carry(module.time_conv, [(2, 0, 0)], twice)


def _start_ends(vae: AutoencoderKLWan) -> None:
    """The first and last convolutions, and the two layers whose output meets a SiLU before the last one."""
    encoder, decoder = vae.encoder, vae.decoder
    _carry(encoder.conv_in, NOW_3D)
    _carry(decoder.conv_in, NOW_3D)
    last_block = [m for m in encoder.down_blocks if isinstance(m, kinds.WanResidualBlock)][-1]
    _carry(last_block.conv_shortcut, POINT, BOTH_SIGNS)
    last_upsampling = decoder.up_blocks[2].upsamplers[0].resample[1]
    _carry(last_upsampling, NOW_2D, BOTH_SIGNS)
    last_upsampling.weight.data[6] = 0
    last_upsampling.bias.data[6] = 2.0  # a constant channel keeps the last norm nearly linear
    for conv, gain in ((encoder.conv_out, 1.0), (decoder.conv_out, 0.9)):
        conv.weight.data[:3] *= 0.05
        for c in range(3):
            conv.weight.data[c, c, 2, 1, 1] = gain
            conv.weight.data[c, c + 3, 2, 1, 1] = -gain
    z_dim = VAE_CONFIG["z_dim"]
    for conv in (vae.quant_conv, vae.post_quant_conv):
        conv.weight.data.copy_(torch.eye(conv.weight.shape[0])[:, :, None, None, None])
    vae.quant_conv.weight.data[z_dim:] *= 0.1
    vae.quant_conv.bias.data[z_dim:] = -4.0  # log-variance: start with little noise
