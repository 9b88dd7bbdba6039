"""Stage ``denoiser``: flow matching on the latents of new clips, guided by free and plain captions."""

import copy
import math
import random
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from diffusers import WanTransformer3DModel
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from demo_model.captions import caption_freely
from demo_model.checkpoint import load_checkpoint, save_checkpoint
from demo_model.latents import COLOUR_CHANNELS, USED_CHANNELS, draw_latents
from demo_model.muon import Muon
from demo_model.schedule import Budget, compute_plateau
from demo_model.text_encoder import encode_text, load_text
from judge import Scene, caption_plainly

DENOISER_CONFIG: Final = {
    "patch_size": [1, 1, 1],  # 8 x 8 pixels to a token; at (1, 2, 2) the outlines stayed blobs
    "num_attention_heads": 4,
    "attention_head_dim": 32,
    "in_channels": 16,
    "out_channels": 16,
    "text_dim": 96,
    "freq_dim": 128,
    "ffn_dim": 384,
    "num_layers": 5,
    "cross_attn_norm": True,
    "qk_norm": "rms_norm_across_heads",
    "rope_max_seq_len": 1024,
}
MATRIX_RATE: Final = 3e-3  # Muon
OTHER_RATE: Final = 2.1e-3  # AdamW
WARM_STEPS: Final = 100
TOKENS_PER_STEP: Final = 1920
EMPTY_SHARE: Final = 0.1  # of the captions: what guidance is measured against
PLAIN_SHARE: Final = 0.3
TRAINING_SHIFT: Final = 2.0
COLOUR_WEIGHT: Final = 1.5  # of the three channels that carry the mean colour
PLACE_WEIGHT: Final = 0.25  # of the four channels that carry the map of the place
OBJECT_WEIGHT: Final = 4.0  # of a token at the object; the backdrop is easy
OBJECT_CONTRAST: Final = 0.02  # mean squared distance of a token's latents to its row's median
EMA_DECAY: Final = 0.998
PADDED_LENGTHS: Final = [512, 512, 512, 226, 128]  # values of max_sequence_length to be ready for
LOG_EVERY: Final = 100


class CountedPads:
    """Cross-attention in which the last text token stands for ``pads`` equal ones.

    The Wan pipelines fill the text up with hundreds of zero embeddings and attend to them unmasked. All of them are
    one token, so log(pads) added to the score of a single one gives the same result (to 4e-6) at a fraction of the
    cost.
    """

    def __init__(self) -> None:
        self.pads = 500

    def __call__(self, attn: Any, hidden: torch.Tensor, text: torch.Tensor, *_: Any) -> torch.Tensor:
        """Attend from ``hidden`` (batch, tokens, width) to ``text`` (batch, words + 1, width)."""
        query, key = attn.norm_q(attn.to_q(hidden)), attn.norm_k(attn.to_k(text))
        query, key, value = (z.unflatten(2, (attn.heads, -1)).transpose(1, 2) for z in (query, key, attn.to_v(text)))
        bias = torch.zeros(1, 1, 1, key.shape[2], dtype=value.dtype)
        bias[..., -1] = math.log(self.pads)
        attended = functional.scaled_dot_product_attention(query, key, value, attn_mask=bias)
        return attn.to_out[0](attended.transpose(1, 2).flatten(2))


class Learner:
    """The denoiser with its optimizers and the running mean of its weights, which is what gets exported."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.step = 0
        self.pads = CountedPads()
        self.model = WanTransformer3DModel(**DENOISER_CONFIG)
        torch.nn.init.zeros_(self.model.proj_out.weight)
        for block in self.model.blocks:
            block.attn2.set_processor(self.pads)
            block.scale_shift_table.data *= 0.2  # nearly no modulation at the start
        named = self.model.blocks.named_parameters()
        matrices = [p for name, p in named if p.ndim == 2 and "scale_shift" not in name]
        chosen = set(map(id, matrices))
        others = [p for p in self.model.parameters() if id(p) not in chosen]
        self._optimizers: dict[torch.optim.Optimizer, float] = {
            Muon(matrices, lr=MATRIX_RATE, momentum=0.95, weight_decay=0.02): MATRIX_RATE,
            torch.optim.AdamW(others, lr=OTHER_RATE, betas=(0.9, 0.98), weight_decay=0.01): OTHER_RATE,
        }
        self._mean = copy.deepcopy(self.model.state_dict())
        if path.exists():
            self._load()

    def _load(self) -> None:
        state = load_checkpoint(self._path)
        self.model.load_state_dict(state["model"])
        self._mean, self.step = state["ema"], state["step"]
        for optimizer, saved in zip(self._optimizers, state["opts"], strict=True):
            optimizer.load_state_dict(saved)

    def save(self) -> None:
        """Write the checkpoint that ``__init__`` goes on from."""
        states = [optimizer.state_dict() for optimizer in self._optimizers]
        state = {"model": self.model.state_dict(), "ema": self._mean, "opts": states, "step": self.step}
        save_checkpoint(self._path, state)

    def learn(self, loss: torch.Tensor, rate: float) -> None:
        """One step at that share of the peak learning rates."""
        for optimizer, peak in self._optimizers.items():
            for group in optimizer.param_groups:
                group["lr"] = rate * peak
            optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimizer in self._optimizers:
            optimizer.step()
        decay = min(EMA_DECAY, (self.step + 1) / (self.step + 20))
        with torch.no_grad():
            for name, value in self.model.state_dict().items():
                self._mean[name].lerp_(value, 1 - decay)
        self.step += 1


def train_denoiser(work: Path, *, seed: int, budget: Budget) -> None:
    """Train on from the checkpoint in ``work``, or from new weights, and leave a checkpoint."""
    torch.manual_seed(seed)
    tokenizer, encoder = load_text(work)
    learner, log = Learner(work / "dit.pt"), []
    first = learner.step
    while learner.step < budget.steps:
        rng = random.Random(seed * 10**6 + learner.step)
        torch.manual_seed(seed * 10**6 + learner.step)
        latents, scenes = draw_latents(rng, TOKENS_PER_STEP, work)
        with torch.no_grad():
            text, _ = encode_text(tokenizer, encoder, [_draw_caption(scene, rng) for scene in scenes])
        learner.pads.pads = rng.choice(PADDED_LENGTHS) - text.shape[1]
        loss = _compute_loss(learner.model, latents, functional.pad(text, (0, 0, 0, 1)), _draw_sigmas(rng, len(scenes)))
        progress = budget.progress(learner.step)
        learner.learn(loss, compute_plateau(progress, learner.step - first, peak=1.0, warm_steps=WARM_STEPS))
        log.append(loss.item())
        is_last = learner.step >= budget.steps or progress >= 1
        if learner.step % LOG_EVERY == 0 or is_last:
            mean_loss = np.mean(log[-LOG_EVERY:])
            print(f"denoiser {learner.step} loss {mean_loss:.4f} {budget.elapsed_s():.0f}s", flush=True)
            learner.save()
        if is_last:
            return


def _draw_caption(scene: Scene, rng: random.Random) -> str:
    if rng.random() < EMPTY_SHARE:
        return ""
    return caption_plainly(scene) if rng.random() < PLAIN_SHARE else caption_freely(scene, rng)


def _draw_sigmas(rng: random.Random, count: int) -> torch.Tensor:
    """Noise levels in 0..1, mostly logit-normal, shifted like the sampler's."""
    even = torch.sigmoid(torch.randn(count)) if rng.random() < 0.7 else torch.rand(count)
    return TRAINING_SHIFT * even / (1 + (TRAINING_SHIFT - 1) * even)


def _compute_loss(
    model: WanTransformer3DModel, latents: torch.Tensor, text: torch.Tensor, sigmas: torch.Tensor
) -> torch.Tensor:
    """The model sees (1 - sigma) latents + sigma noise and learns noise - latents; weighted squared error."""
    noise, level = torch.randn_like(latents), sigmas.view(-1, 1, 1, 1, 1)
    noisy = (1 - level) * latents + level * noise
    with sdpa_kernel(SDPBackend.MATH):  # the backward pass of the fused kernel is far slower on a processor
        velocity = model(noisy, sigmas * 1000, text, return_dict=False)[0]
    weight = torch.ones(1, latents.shape[1], 1, 1, 1)
    weight[:, :COLOUR_CHANNELS] = COLOUR_WEIGHT
    weight[:, USED_CHANNELS:] = PLACE_WEIGHT
    return ((velocity - (noise - latents)) ** 2 * weight * _weigh_objects(latents[:, :USED_CHANNELS])).mean()


def _weigh_objects(latents: torch.Tensor) -> torch.Tensor:
    """More for a token that differs from its row's median, and for its neighbours; mean 1 over the batch."""
    batch, channels, frames, height, width = latents.shape
    rows = latents.transpose(2, 3).reshape(batch, channels, height, frames * width)
    median = rows.median(-1).values.view(batch, channels, 1, height, 1)
    differs = ((latents - median).square().mean(1) > OBJECT_CONTRAST).float()
    near = functional.max_pool2d(differs.view(batch * frames, 1, height, width), 3, 1, 1)
    weight = 1 + (OBJECT_WEIGHT - 1) * near.view(batch, 1, frames, height, width)
    return weight / weight.mean()
