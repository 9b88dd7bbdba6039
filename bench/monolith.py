"""The monolith to compare with: `WanPipeline` and `export_to_video` in one process, one clip after the other.

    python bench/monolith.py --clips 5 --size 128x128 --frames 33 --steps 20 --threads 2

Loads the model once, then prints one line of JSON for each clip: seconds in all, and of each part.
"""

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

PROMPT = "a red circle moving right on a white background"


def main() -> None:
    """Make the clips."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int, default=5)
    parser.add_argument("--size", default="128x128")
    parser.add_argument("--frames", type=int, default=33)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    pipe = load(options.threads)
    print(json.dumps({"event": "loaded"}), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for index in range(options.clips):
            input()  # the caller says when, so that two contenders take turns
            print(json.dumps(make_clip(pipe, options, index, Path(folder) / "clip.mp4")), flush=True)


def load(threads: int) -> Any:  # the library has no types
    """The pipeline, warmed up by one step."""
    os.environ.update(TQDM_DISABLE="1", DIFFUSERS_VERBOSITY="error", TRANSFORMERS_VERBOSITY="error")
    import torch  # noqa: PLC0415 (after the environment is set)
    from diffusers import WanPipeline  # noqa: PLC0415

    from vitascope.demo_model import DEMO_MODEL_DIR  # noqa: PLC0415

    torch.set_num_threads(threads)
    pipe = WanPipeline.from_pretrained(DEMO_MODEL_DIR, dtype=torch.float32, local_files_only=True)
    pipe.set_progress_bar_config(disable=True)
    pipe(prompt=PROMPT, height=64, width=64, num_frames=5, num_inference_steps=1)
    return pipe


def make_clip(pipe: Any, options: argparse.Namespace, seed: int, path: Path) -> dict[str, float]:
    """One clip, from the prompt to the file."""
    import torch  # noqa: PLC0415 (see load)
    from diffusers.utils import export_to_video  # noqa: PLC0415

    width, height = map(int, options.size.split("x"))
    stamps = [time.perf_counter()]

    def note_step(_pipe: Any, step: int, _time: Any, tensors: dict[str, Any]) -> dict[str, Any]:
        if step == options.steps - 1:
            stamps.append(time.perf_counter())
        return tensors

    video = pipe(
        prompt=PROMPT,
        height=height,
        width=width,
        num_frames=options.frames,
        num_inference_steps=options.steps,
        guidance_scale=4.0,
        generator=torch.Generator().manual_seed(seed),
        callback_on_step_end=note_step,
    ).frames[0]
    stamps.append(time.perf_counter())
    export_to_video(list(video), str(path), fps=8)
    stamps.append(time.perf_counter())
    begin, denoised, decoded, written = stamps
    return {
        "wall_s": written - begin,
        "denoise_s": denoised - begin,
        "decode_s": decoded - denoised,
        "export_s": written - decoded,
    }


if __name__ == "__main__":
    main()
