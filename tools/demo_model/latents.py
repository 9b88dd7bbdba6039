"""Latents of drawn clips: what the encoder computes, without running it.

The encoder is not learned. A latent frame is the last of its four frames (the first is alone), averaged over squares
of 4 x 4 pixels; two by two, those squares give one position: their mean and three differences, for each of red, green
and blue. Twelve of the sixteen channels, local and linear: an outline leaves no trace beside itself, which a learned
encoder does, and which a small denoiser then has to learn. ``vae_start`` sets the encoder's weights to compute just
this.

The denoiser also learns a fixed map of the place in the other four channels, which the decoder ignores: Wan's rotary
embedding tells it only distances, so a small model would spend itself on finding out where it is.
"""

import json
import math
import random
from pathlib import Path
from typing import Final

import torch
from torch.nn import functional

from demo_model.clips import Shape, draw_clips
from judge import Scene

CHANNELS: Final = 16
COLOUR_CHANNELS: Final = 3
USED_CHANNELS: Final = 12  # the other four: zero from the encoder, the map of the place for the denoiser
# Rows: mean, left minus right, top minus bottom, diagonal; columns: top left, top right, bottom left, bottom right.
HAAR: Final = ((1, 1, 1, 1), (1, -1, 1, -1), (1, 1, -1, -1), (1, -1, -1, 1))
DETAIL_DEVIATION: Final = 0.6  # of a normalised difference channel; the colour channels have 1
PLACE_DEVIATION: Final = 2.0  # large, to stand out of the noise early
STATS_CLIPS: Final = 512
# Share of the training batches per shape of the clips. A still shows as much of an outline as a clip does and costs a
# fifth of its tokens, so half of the batches are stills.
BUCKETS: Final[dict[Shape, float]] = {
    (1, 64, 64): 0.5,
    (17, 64, 64): 0.38,
    (9, 64, 64): 0.03,
    (25, 64, 64): 0.01,
    (33, 64, 64): 0.01,
    (17, 96, 96): 0.03,
    (17, 64, 96): 0.015,
    (17, 96, 64): 0.015,
    (17, 64, 128): 0.01,
    (17, 128, 128): 0.01,
}
MIN_BATCH: Final = 2


def compute_latents(clips: torch.Tensor) -> torch.Tensor:
    """Latents (batch, 16, frames, height / 8, width / 8) of the frames (batch, 3, frames, height, width) they show."""
    batch, colours, frames, height, width = clips.shape
    pooled = functional.avg_pool2d(clips.transpose(1, 2).flatten(0, 1), 4)
    squares = (
        pooled.view(batch, frames, colours, height // 8, 2, width // 8, 2).permute(4, 6, 0, 2, 1, 3, 5).flatten(0, 1)
    )
    haar = torch.tensor(HAAR, dtype=clips.dtype) / 4
    used = torch.einsum("ks,sbcfhw->bkcfhw", haar, squares).flatten(1, 2)
    return functional.pad(used, (0, 0, 0, 0, 0, 0, 0, CHANNELS - USED_CHANNELS))


def draw_latents(rng: random.Random, tokens: int, work: Path) -> tuple[torch.Tensor, list[Scene]]:
    """About that many latent tokens of new clips from one bucket, normalised, and their scenes."""
    shape = rng.choices(list(BUCKETS), list(BUCKETS.values()))[0]
    frames, height, width = _latent_frames(shape)
    count = max(MIN_BATCH, tokens // (frames * (height // 8) * (width // 8)))
    # A still is the middle of its clip: the map of the place says so of a single frame.
    drawn = frames if frames > 1 else 3
    clips, scenes = draw_clips(rng, count, (drawn, height, width))
    clips = clips if frames > 1 else clips[:, :, 1:2]
    mean, deviation = load_latent_stats(work)
    latents = (compute_latents(clips) - mean) / deviation
    latents[:, USED_CHANNELS:] = compute_place(frames, height // 8, width // 8)
    return latents, scenes


def compute_place(frames: int, height: int, width: int) -> torch.Tensor:
    """Where a latent is in its clip: (4, frames, height, width) of column, row, time and distance from the middle."""
    time, row, column = (torch.linspace(-1, 1, n) if n > 1 else torch.zeros(1) for n in (frames, height, width))
    time, row, column = torch.meshgrid(time, row, column, indexing="ij")
    return PLACE_DEVIATION * torch.stack([1.6 * column, 1.6 * row, 1.4 * time, 1.6 * (column**2 + row**2 - 0.8)])


def load_latent_stats(work: Path) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and deviation to normalise by, per channel, as (1, 16, 1, 1, 1); measured once and then kept."""
    path = work / "stats.json"
    if not path.exists():
        clips, _ = draw_clips(random.Random(0), STATS_CLIPS, _latent_frames((17, 64, 64)))
        values = compute_latents(clips).transpose(0, 1).flatten(1)
        mean, deviation = values.mean(1), values.std(1)
        mean[COLOUR_CHANNELS:] = 0
        deviation[COLOUR_CHANNELS:USED_CHANNELS] /= DETAIL_DEVIATION
        deviation[USED_CHANNELS:] = 1
        path.write_text(json.dumps({"mean": mean.tolist(), "std": deviation.tolist()}))
    stats = json.loads(path.read_text())
    mean, deviation = (torch.tensor(stats[name]).view(1, -1, 1, 1, 1) for name in ("mean", "std"))
    return mean, deviation


def _latent_frames(shape: Shape) -> Shape:
    """The frames that a clip's latents show: every fourth, so a clip drawn with just these is the same."""
    frames, height, width = shape
    assert (frames - 1) % 4 == 0, shape
    return math.ceil(frames / 4), height, width
