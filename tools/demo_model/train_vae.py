"""Stage ``vae``: the decoder learns to draw clips from their latents; edges count five times. The encoder is fixed."""

import random
from pathlib import Path
from typing import Final

import numpy as np
import torch
from diffusers import AutoencoderKLWan
from torch.nn import functional

from demo_model.checkpoint import load_checkpoint, save_checkpoint
from demo_model.clips import Shape, crop_at_objects, draw_clips
from demo_model.latents import USED_CHANNELS, compute_latents, load_latent_stats
from demo_model.schedule import Budget, compute_cosine
from demo_model.vae_parallel import decode, patch_resampling
from demo_model.vae_start import build_vae

PEAK_RATE: Final = 6e-4  # twice that lost 2 dB and did not come back
WARM_STEPS: Final = 60
MAX_NOISE: Final = 0.1  # deviation of the noise on normalised latents: the denoiser is not exact either
EDGE_WEIGHT: Final = 5.0  # of a pixel whose 3x3 surroundings differ by more than EDGE_CONTRAST; others count 1
EDGE_CONTRAST: Final = 0.15  # of the range 2
WHOLE_CLIPS: Final[list[Shape]] = [(17, 64, 64), (9, 96, 96), (17, 64, 80)]
WHOLE_SHARE: Final = 0.2  # of the batches
CROPS: Final = [(5, 6, 40), (5, 6, 40), (5, 4, 48), (9, 4, 40), (13, 3, 32), (1, 20, 40)]  # frames, clips, side
LOG_EVERY: Final = 50


def train_vae(work: Path, *, seed: int, budget: Budget) -> None:
    """Train on from the checkpoint in ``work``, or from the start values, and leave a checkpoint."""
    torch.manual_seed(seed)
    patch_resampling()
    vae, path, first, log = build_vae(), work / "vae.pt", 0, []
    learns = [p for p in vae.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(learns, lr=PEAK_RATE, betas=(0.9, 0.99), weight_decay=1e-4)
    if path.exists():
        state = load_checkpoint(path)
        vae.load_state_dict(state["model"])
        optimizer.load_state_dict(state["opt"])
        first = state["step"]
    _, deviation = load_latent_stats(work)
    for step in range(first, budget.steps):
        torch.manual_seed(seed * 10**6 + step)
        clips = _draw_batch(random.Random(seed * 10**6 + step))
        loss, quality = _compute_loss(vae, clips, deviation)
        progress = budget.progress(step)
        rate = compute_cosine(progress, step - first, peak=PEAK_RATE, warm_steps=WARM_STEPS)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(learns, 1.0)
        optimizer.step()
        log.append((loss.item(), quality))
        is_last = step + 1 == budget.steps or progress >= 1
        if (step + 1) % LOG_EVERY == 0 or is_last:
            mean_loss, mean_quality = np.mean(log[-LOG_EVERY:], 0)
            print(f"vae {step + 1} loss {mean_loss:.4f} psnr {mean_quality:.2f} {budget.elapsed_s():.0f}s", flush=True)
            save_checkpoint(path, {"model": vae.state_dict(), "opt": optimizer.state_dict(), "step": step + 1})
        if is_last:
            return


def compute_psnr(first: torch.Tensor, second: torch.Tensor) -> float:
    """Mean over the clips of the peak signal-to-noise ratio in dB; both in -1..1."""
    error = functional.mse_loss(first.clamp(-1, 1), second, reduction="none").mean((1, 2, 3, 4))
    return float((10 * torch.log10(4 / error)).mean())


def _draw_batch(rng: random.Random) -> torch.Tensor:
    if rng.random() < WHOLE_SHARE:
        return draw_clips(rng, 1, rng.choice(WHOLE_CLIPS))[0]
    frames, count, side = rng.choice(CROPS)
    size = rng.choice([64, 64, 64, 80, 96])
    clips, _ = draw_clips(rng, count, (17, size, size))
    return crop_at_objects(clips, rng, frames=frames, side_px=side)


def _compute_loss(vae: AutoencoderKLWan, clips: torch.Tensor, deviation: torch.Tensor) -> tuple[torch.Tensor, float]:
    """L1 + 2 L2, weighted towards edges, from latents with a little noise; the quality in dB beside it."""
    clips = clips.contiguous(memory_format=torch.channels_last_3d)
    latents = compute_latents(clips[:, :, ::4])
    noise = torch.rand(len(clips), 1, 1, 1, 1) * MAX_NOISE * deviation * torch.randn_like(latents)
    noise[:, USED_CHANNELS:] = 0  # so the decoder never learns to look at them
    decoded = decode(vae, latents + noise)
    error = (decoded - clips).abs()
    return ((error + 2 * error**2) * _weigh_edges(clips)).mean(), compute_psnr(decoded.detach(), clips)


def _weigh_edges(clips: torch.Tensor) -> torch.Tensor:
    batch, channels, frames, height, width = clips.shape
    images = clips.transpose(1, 2).reshape(batch * frames, channels, height, width)
    contrast = functional.max_pool2d(images, 3, 1, 1) + functional.max_pool2d(-images, 3, 1, 1)
    is_edge = (contrast.amax(1) > EDGE_CONTRAST).float().view(batch, 1, frames, height, width)
    return 1 + (EDGE_WEIGHT - 1) * is_edge
