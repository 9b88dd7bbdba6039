"""Stage ``text``: the tokenizer, and a UMT5 encoder that learns to name every attribute of a caption."""

import math
import random
from collections import Counter
from pathlib import Path
from typing import Final

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from transformers import T5Tokenizer, UMT5Config, UMT5EncoderModel

from demo_model.captions import ATTRIBUTES, STRAY_WORDS, caption_freely, compute_targets
from demo_model.checkpoint import load_checkpoint, save_checkpoint
from demo_model.schedule import Budget, compute_cosine
from judge import caption_plainly, draw_scene

TEXT_CONFIG: Final = {
    "d_model": 96,
    "d_kv": 24,
    "d_ff": 192,
    "num_layers": 3,
    "num_heads": 4,
    "dropout_rate": 0.0,
    "relative_attention_num_buckets": 16,
    "relative_attention_max_distance": 48,
}
PEAK_RATE: Final = 2e-3
WARM_STEPS: Final = 100
CAPTIONS_PER_STEP: Final = 96
PLAIN_SHARE: Final = 0.2
MAX_TOKENS: Final = 96
VOCABULARY_CAPTIONS: Final = 20_000
RARE: Final = 3  # a word seen no more often gets no piece of its own
LOG_EVERY: Final = 100


def train_text(work: Path, *, seed: int, budget: Budget) -> None:
    """Train from new values; a finished checkpoint in ``work`` is kept as it is.

    Every token must name all attributes of its caption through linear heads, which are dropped afterwards: so
    whatever token the denoiser attends to tells it the whole caption.
    """
    path = work / "text.pt"
    if path.exists():
        return
    torch.manual_seed(seed)
    tokenizer = _build_tokenizer(seed)
    tokenizer.save_pretrained(work / "tokenizer")
    encoder = UMT5EncoderModel(UMT5Config(vocab_size=len(tokenizer), **TEXT_CONFIG))
    heads = nn.ModuleList(nn.Linear(TEXT_CONFIG["d_model"], len(values)) for values in ATTRIBUTES.values())
    learns = [*encoder.parameters(), *heads.parameters()]
    optimizer = torch.optim.AdamW(learns, lr=PEAK_RATE, betas=(0.9, 0.99), weight_decay=0.01)
    log = []
    for step in range(budget.steps):
        rng = random.Random(seed * 10**6 + step)
        texts = [_draw_caption(rng) for _ in range(CAPTIONS_PER_STEP)]
        loss, right = _compute_loss(heads, *encode_text(tokenizer, encoder, texts), texts)
        rate = compute_cosine(budget.progress(step), step, peak=PEAK_RATE, warm_steps=WARM_STEPS)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(learns, 1.0)
        optimizer.step()
        log.append(right)
        if (step + 1) % LOG_EVERY == 0:
            accuracy = np.mean(log[-LOG_EVERY:], 0).round(3)
            print(f"text {step + 1} loss {loss.item():.4f} accuracy {accuracy}", flush=True)
    save_checkpoint(path, {"model": encoder.state_dict(), "vocab": len(tokenizer)})


def load_text(work: Path) -> tuple[T5Tokenizer, UMT5EncoderModel]:
    """The tokenizer and the trained, frozen encoder; ready once the stage ``text`` has run."""
    state = load_checkpoint(work / "text.pt")
    encoder = UMT5EncoderModel(UMT5Config(vocab_size=state["vocab"], **TEXT_CONFIG))
    encoder.load_state_dict(state["model"])
    encoder.eval().requires_grad_(requires_grad=False)
    return T5Tokenizer.from_pretrained(work / "tokenizer"), encoder


def encode_text(
    tokenizer: T5Tokenizer, encoder: UMT5EncoderModel, texts: list[str]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Embeddings (batch, longest, 96), zero after each text's end as in the Wan pipelines, and the 0/1 mask."""
    tokens = tokenizer(texts, padding="longest", truncation=True, max_length=MAX_TOKENS, return_tensors="pt")
    embeddings = encoder(tokens.input_ids, tokens.attention_mask).last_hidden_state
    return embeddings * tokens.attention_mask[..., None].to(embeddings.dtype), tokens.attention_mask


def _draw_caption(rng: random.Random) -> str:
    scene = draw_scene(rng)
    return caption_plainly(scene) if rng.random() < PLAIN_SHARE else caption_freely(scene, rng)


def _compute_loss(
    heads: nn.ModuleList, embeddings: torch.Tensor, mask: torch.Tensor, texts: list[str]
) -> tuple[torch.Tensor, list[float]]:
    """Cross-entropy over all tokens and attributes, and the share of right tokens per attribute."""
    targets = torch.tensor([compute_targets(text) for text in texts])
    is_token, loss, right = mask.bool(), torch.zeros(()), []
    for index, head in enumerate(heads):
        logits = head(embeddings)[is_token]
        goal = targets[:, index, None].expand_as(mask)[is_token]
        loss = loss + functional.cross_entropy(logits, goal)
        right.append((logits.argmax(-1) == goal).float().mean().item())
    return loss, right


def _build_tokenizer(seed: int) -> T5Tokenizer:
    """Unigram: every word of the grammar is one piece, all printable ASCII is spelt, the rest is <unk>."""
    rng, count = random.Random(seed), Counter[str]()
    for _ in range(VOCABULARY_CAPTIONS):
        count.update(_draw_caption(rng).lower().replace(",", " ").replace(".", " ").split())
    known = (word for word, n in count.items() if word.isascii() and word.isalpha() and n > RARE)
    words = sorted((word for word in known if word not in STRAY_WORDS), key=lambda word: (-count[word], word))
    total, space = count.total(), "\u2581"
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), (space, -6.0)]
    pieces += [(space + word, math.log(count[word] / total)) for word in words]
    for form in (str.capitalize, str.upper):
        pieces += [(space + form(word), math.log(count[word] / total) - 3) for word in words if len(word) > 1]
    taken = {piece for piece, _ in pieces}
    pieces += [(letter, -14.0) for letter in map(chr, range(33, 127)) if letter not in taken]
    return T5Tokenizer(vocab=pieces, extra_ids=0)
