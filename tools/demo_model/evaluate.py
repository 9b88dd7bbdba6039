"""Measure an exported demo model: ``python -m demo_model.evaluate --model DIR --to metrics.json``.

Generates plain one-object prompts and lets the judge decide, measures the autoencoder on drawn clips and the seconds
of a step. What a run measures replaces that entry of the metrics file; the rest of the file stays.
"""

import argparse
import json
import random
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from diffusers import WanPipeline

from demo_model.clips import Shape, draw_clips
from demo_model.train_vae import compute_psnr
from judge import Scene, Verdict, caption_plainly, draw_scene, judge

SEED: Final = 777  # of the scenes; seed k of the sampler belongs to prompt k
AT_ONCE: Final = 8  # prompts in a batch
TRUTH_CLIPS: Final = 24  # drawn clips that the autoencoder is measured on
SIMPLE_MOTIONS: Final = frozenset({"right", "left", "up", "down", "growing", "shrinking", "still"})
SHEET_CLIPS: Final = 32
SHEET_FRAMES: Final = 5
TIMED_SHAPES: Final[list[Shape]] = [(17, 64, 64), (33, 128, 128)]
TIMED_RUNS: Final = 4


def main() -> None:
    """Measure one shape and update the metrics file; write a contact sheet if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--to", type=Path, required=True, help="metrics file")
    parser.add_argument("--sheet", type=Path, help="PNG of the first clips")
    parser.add_argument("--prompts", type=int, default=64)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--guidance", type=float, default=4.0)
    parser.add_argument("--shape", type=int, nargs=3, default=(17, 64, 64), help="frames height width")
    options = parser.parse_args()
    torch.set_num_threads(1)
    pipeline = WanPipeline.from_pretrained(options.model, local_files_only=True)
    pipeline.set_progress_bar_config(disable=True)
    shape = tuple(options.shape)
    rng = random.Random(SEED)
    scenes = [draw_scene(rng) for _ in range(options.prompts)]
    clips = generate(pipeline, scenes, shape=shape, steps=options.steps, guidance=options.guidance)
    verdicts = [judge(clip, caption_plainly(scene)) for clip, scene in zip(clips, scenes, strict=True)]
    entry = {
        "steps": options.steps,
        "guidance": options.guidance,
        "prompts": options.prompts,
        **summarise(scenes, verdicts),
        "autoencoder": measure_autoencoder(pipeline, shape),
    }
    print(json.dumps(entry, indent=1))
    save_metrics(options.to, "x".join(map(str, shape)), entry, measure_seconds(pipeline))
    if options.sheet:
        save_sheet(options.sheet, clips)


def generate(
    pipeline: WanPipeline, scenes: list[Scene], *, shape: Shape, steps: int, guidance: float
) -> list[npt.NDArray[np.float32]]:
    """One clip (frames, height, width, 3) in 0..1 for the plain caption of every scene."""
    frames, height, width = shape
    clips: list[npt.NDArray[np.float32]] = []
    for start in range(0, len(scenes), AT_ONCE):
        prompts = [caption_plainly(scene) for scene in scenes[start : start + AT_ONCE]]
        clips += list(
            pipeline(
                prompt=prompts,
                height=height,
                width=width,
                num_frames=frames,
                num_inference_steps=steps,
                guidance_scale=guidance,
                generator=[torch.Generator().manual_seed(start + k) for k in range(len(prompts))],
                output_type="np",
            ).frames
        )
    return clips


def summarise(scenes: list[Scene], verdicts: list[Verdict]) -> dict[str, Any]:
    """Percent right: overall, motion without bouncing and rotating, and by value of every attribute."""
    right: dict[str, list[bool]] = defaultdict(list)
    by_value: dict[str, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for scene, verdict in zip(scenes, verdicts, strict=True):
        for attribute in ("colour", "background", "motion", "shape"):
            value, is_right = getattr(scene, attribute), bool(getattr(verdict, attribute))
            right[attribute].append(is_right)
            by_value[attribute][value].append(is_right)
        if scene.motion in SIMPLE_MOTIONS:
            right["simple_motion"].append(bool(verdict.motion))
        right["all_four"].append(verdict.ok)
    return {
        "right_percent": _percent(right),
        "by_value_percent": {attribute: _percent(dict(sorted(v.items()))) for attribute, v in by_value.items()},
        "by_value_prompts": {a: {k: len(v) for k, v in sorted(values.items())} for a, values in by_value.items()},
    }


def _percent(right: Mapping[str, list[bool]]) -> dict[str, float]:
    return {name: round(100 * sum(values) / len(values), 1) for name, values in right.items()}


def measure_autoencoder(pipeline: WanPipeline, shape: Shape) -> dict[str, float]:
    """Quality in dB and percent of shapes still right, after encoding and decoding drawn clips."""
    rng, quality, right = random.Random(SEED + 1), [], []
    for _ in range(TRUTH_CLIPS):
        clip, scenes = draw_clips(rng, 1, shape)
        with torch.no_grad():
            decoded = pipeline.vae.decode(pipeline.vae.encode(clip).latent_dist.mode()).sample
        quality.append(compute_psnr(decoded, clip))
        pixels = ((decoded[0].permute(1, 2, 3, 0) + 1) / 2).clamp(0, 1).numpy()
        right.append(judge(pixels, caption_plainly(scenes[0])).shape)
    return {"psnr_db": round(float(np.mean(quality)), 2), "shape_percent": round(100 * float(np.mean(right)), 1)}


def measure_seconds(pipeline: WanPipeline) -> dict[str, dict[str, float]]:
    """Processor seconds of one step with guidance (two passes) and of decoding, on one core; the best of some runs."""
    seconds = {}
    for frames, height, width in TIMED_SHAPES:
        latents = torch.randn(1, 16, (frames - 1) // 4 + 1, height // 8, width // 8)
        text, steps = torch.randn(1, 512, pipeline.text_encoder.config.d_model), []
        with torch.no_grad():
            for _ in range(TIMED_RUNS):
                start = time.process_time()
                for _ in ("with the prompt", "without"):
                    pipeline.transformer(latents, torch.tensor([500.0]), text)
                steps.append(time.process_time() - start)
            start = time.process_time()
            pipeline.vae.decode(latents)
        decode_s = time.process_time() - start
        seconds[f"{frames}x{height}x{width}"] = {"step_s": round(min(steps), 3), "decode_s": round(decode_s, 2)}
    return seconds


def save_metrics(path: Path, name: str, entry: dict[str, Any], seconds: dict[str, dict[str, float]]) -> None:
    """Replace the entry of one shape and the seconds; keep the entries of other shapes."""
    metrics = json.loads(path.read_text()) if path.exists() else {}
    shapes = {**metrics.get("shapes", {}), name: entry}
    path.write_text(json.dumps({"shapes": shapes, "one_core_seconds": seconds}, indent=1) + "\n")


def save_sheet(path: Path, clips: list[npt.NDArray[np.float32]]) -> None:
    """A PNG with a row per clip: evenly spread frames."""
    from PIL import Image  # noqa: PLC0415 (only for this picture)

    rows = []
    for clip in clips[:SHEET_CLIPS]:
        chosen = np.linspace(0, len(clip) - 1, SHEET_FRAMES).round().astype(int)
        rows.append(np.concatenate(list((clip[chosen] * 255).astype(np.uint8)), 1))
    half = (len(rows) + 1) // 2
    rows += [np.zeros_like(rows[0])] * (2 * half - len(rows))
    Image.fromarray(np.concatenate([np.concatenate(rows[:half]), np.concatenate(rows[half:])], 1)).save(path)


if __name__ == "__main__":
    main()
