"""Stage ``cache``: clips are encoded once; the denoiser learns from the latents."""

import json
import math
import random
from dataclasses import asdict
from pathlib import Path
from typing import Final

import torch

from demo_model.checkpoint import load_checkpoint, save_checkpoint
from demo_model.clips import Shape, draw_clips
from demo_model.train_vae import load_vae
from demo_model.vae_parallel import encode
from judge import Scene

# Share of the training batches per shape of the clips.
BUCKETS: Final[dict[Shape, float]] = {
    (17, 64, 64): 0.74,
    (9, 64, 64): 0.06,
    (25, 64, 64): 0.01,
    (33, 64, 64): 0.03,
    (17, 96, 96): 0.07,
    (17, 64, 96): 0.03,
    (17, 96, 64): 0.03,
    (17, 64, 128): 0.01,
    (17, 80, 128): 0.01,
    (17, 128, 128): 0.01,
}
CHUNK: Final = 32  # clips in a file
PIXELS_AT_ONCE: Final = 8 * 17 * 64 * 64
MIN_BATCH: Final = 2


def build_cache(work: Path, *, seed: int, clips: int) -> None:
    """Encode that many clips, spread over the buckets; a chunk that is there already is kept."""
    vae, folder = load_vae(work), work / "cache"
    folder.mkdir(exist_ok=True)
    todo = sorted(  # round robin in proportion, so that a cache in the making is already a fair sample
        (number / share, shape, number)
        for shape, share in BUCKETS.items()
        for number in range(math.ceil(clips * share / CHUNK))
    )
    for _, shape, number in todo:
        path = folder / f"{'x'.join(map(str, shape))}_{number:03d}.pt"
        if path.exists():
            continue
        rng, latents, scenes = random.Random(f"{seed} {path.name}"), [], []
        count = max(1, PIXELS_AT_ONCE // math.prod(shape))
        while len(scenes) < CHUNK:
            batch, drawn = draw_clips(rng, min(count, CHUNK - len(scenes)), shape)
            with torch.no_grad():
                latents.append(encode(vae, batch.contiguous(memory_format=torch.channels_last_3d))[0].half())
            scenes += [asdict(scene) for scene in drawn]
        save_checkpoint(path, {"z": torch.cat(latents), "scenes": scenes})
        print(f"cache {path.name}", flush=True)


def load_latent_stats(work: Path) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and deviation per channel, (1, 16, 1, 1, 1), over the first chunk of every bucket; fixed once measured."""
    path = work / "stats.json"
    if not path.exists():
        firsts = sorted((work / "cache").glob("*_000.pt"))
        values = torch.cat([load_checkpoint(f)["z"].float().transpose(0, 1).flatten(1) for f in firsts], 1)
        path.write_text(json.dumps({"mean": values.mean(1).tolist(), "std": values.std(1).tolist()}))
    stats = json.loads(path.read_text())
    mean, deviation = (torch.tensor(stats[name]).view(1, -1, 1, 1, 1) for name in ("mean", "std"))
    return mean, deviation


class LatentCache:
    """The cached latents by bucket, normalised to mean 0 and deviation 1 per channel."""

    def __init__(self, work: Path) -> None:
        mean, deviation = load_latent_stats(work)
        self._latents: dict[Shape, torch.Tensor] = {}
        self._scenes: dict[Shape, list[Scene]] = {}
        for shape in BUCKETS:
            files = sorted((work / "cache").glob(f"{'x'.join(map(str, shape))}_*.pt"))
            chunks = [load_checkpoint(file) for file in files]
            if chunks:
                latents = torch.cat([chunk["z"] for chunk in chunks]).float()
                self._latents[shape] = ((latents - mean) / deviation).half()
                self._scenes[shape] = [Scene(**scene) for chunk in chunks for scene in chunk["scenes"]]

    def __len__(self) -> int:
        return sum(map(len, self._scenes.values()))

    def draw(self, rng: random.Random, tokens: int) -> tuple[torch.Tensor, list[Scene]]:
        """About that many latent tokens from one bucket: (batch, 16, frames, height, width) and their scenes."""
        shapes = list(self._latents)
        shape = rng.choices(shapes, [BUCKETS[s] for s in shapes])[0]
        latents, scenes = self._latents[shape], self._scenes[shape]
        count = max(MIN_BATCH, tokens // math.prod(latents.shape[2:]))
        chosen = [rng.randrange(len(scenes)) for _ in range(count)]
        return latents[chosen].float(), [scenes[i] for i in chosen]
