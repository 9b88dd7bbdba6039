"""Start values of the autoencoder: a fixed linear encoder, and a decoder that passes the mean colour from the start.

The encoder computes ``latents.compute_latents`` and stays as it is. Of the decoder, channels 0..2 carry red, green and
blue along the chain of shortcuts and resampling convolutions.

From the stock values, 150 steps reached 13 dB; from these, 10 steps reached 16 dB and 200 reached 19 dB. Where a SiLU
follows, a channel travels with its negative, as silu(x) - silu(-x) = x; a large constant channel keeps a norm nearly
linear. All other channels start as random features, residual branches at zero.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import torch
from diffusers import AutoencoderKLWan
from diffusers.models.autoencoders import autoencoder_kl_wan as kinds
from torch import nn

from demo_model.latents import CHANNELS, COLOUR_CHANNELS, HAAR, USED_CHANNELS

VAE_CONFIG: Final = {
    "base_dim": 8,
    "decoder_base_dim": 8,
    "z_dim": CHANNELS,
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
LAST_FRAME: Final[list[Tap]] = [(2, 0, 0)]
LARGE: Final = 60.0  # the constant channel of the encoder: |latents|^2 / LARGE^2 is the error of its last norm


def build_vae() -> AutoencoderKLWan:
    """A new autoencoder with these start values (random ones from torch's global generator)."""
    vae = AutoencoderKLWan(**VAE_CONFIG)
    for module in vae.modules():
        if isinstance(module, nn.Conv2d | nn.Conv3d):
            nn.init.normal_(module.weight, std=module.weight[0].numel() ** -0.5)
            nn.init.zeros_(module.bias)
    for module in vae.modules():
        _start_block(module)
    _start_encoder(vae)
    _start_decoder(vae)
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
            _carry(module.time_conv, LAST_FRAME)
        elif module.mode == "upsample3d":  # channels c and dim + c are the two frames that one becomes
            twice = {c + half: (c, 1.0) for c in range(3) for half in (0, module.dim)}
            _carry(module.time_conv, LAST_FRAME, twice)


def _start_encoder(vae: AutoencoderKLWan) -> None:
    """Averages down to squares of 4 x 4 pixels, then means and differences of two by two of them."""
    encoder = vae.encoder
    _carry(encoder.conv_in, NOW_3D)
    last_down = [m for m in encoder.down_blocks if isinstance(m, kinds.WanResample)][-1]
    squares = last_down.resample[1].weight.data
    squares.zero_()
    for row, signs in enumerate(HAAR):
        for tap, sign in zip(MEAN_2X2, signs, strict=True):
            for c in range(COLOUR_CHANNELS):
                squares[(COLOUR_CHANNELS * row + c, c, *tap)] = sign / 4
    channels = range(USED_CHANNELS)
    _carry(last_down.time_conv, LAST_FRAME, {c: (c, 1.0) for c in channels})
    last_block = [m for m in encoder.down_blocks if isinstance(m, kinds.WanResidualBlock)][-1]
    shortcut, out = last_block.conv_shortcut, encoder.conv_out
    shortcut.weight.data.zero_()
    signed = {c: (c, 1.0) for c in channels} | {c + USED_CHANNELS: (c, -1.0) for c in channels}
    _carry(shortcut, POINT, signed)
    shortcut.bias.data[2 * USED_CHANNELS] = LARGE
    out.weight.data.zero_()
    for c in channels:
        gain = LARGE / shortcut.weight.shape[0] ** 0.5
        out.weight.data[c, c, 2, 1, 1] = gain
        out.weight.data[c, c + USED_CHANNELS, 2, 1, 1] = -gain
    vae.quant_conv.weight.data.copy_(torch.eye(2 * CHANNELS)[:, :, None, None, None])
    vae.quant_conv.bias.data[CHANNELS:] = -20.0  # log-variance: none
    encoder.requires_grad_(requires_grad=False)
    vae.quant_conv.requires_grad_(requires_grad=False)


def _start_decoder(vae: AutoencoderKLWan) -> None:
    """The first and last convolutions, and the layer whose output meets a SiLU before the last one."""
    decoder = vae.decoder
    _carry(decoder.conv_in, NOW_3D)
    last_upsampling = decoder.up_blocks[2].upsamplers[0].resample[1]
    _carry(last_upsampling, NOW_2D, BOTH_SIGNS)
    last_upsampling.weight.data[6] = 0
    last_upsampling.bias.data[6] = 2.0
    decoder.conv_out.weight.data[:3] *= 0.05
    for c in range(COLOUR_CHANNELS):
        decoder.conv_out.weight.data[c, c, 2, 1, 1] = 0.9
        decoder.conv_out.weight.data[c, c + 3, 2, 1, 1] = -0.9
    vae.post_quant_conv.weight.data.copy_(torch.eye(CHANNELS)[:, :, None, None, None])
    vae.post_quant_conv.weight.data[:, USED_CHANNELS:] = 0
