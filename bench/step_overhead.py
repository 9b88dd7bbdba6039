"""What our loop costs beside WanPipeline's own: seconds per step of both, in one run, and their ratio.

    python bench/step_overhead.py [--repeats 7]

Both work on the same random model, in turns, on one CPU thread, and must end with the same bits. Prints one line of
text a case, and all of it as JSON in the last line. Ratios are medians; absolute times say nothing about a GPU.
"""

import argparse
import json
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import diffusers
import torch

from vitascope.engine.library import PipelineState
from vitascope.engine.loop import StepReport
from vitascope.engine.pipes import build_pipe, neighbours_of
from vitascope.engine.run import run_stage
from vitascope.engine.stages import create_blocks, split

STEPS = 10
GUIDANCE = 5.0
TEXT_TOKENS, TEXT_DIM = 16, 32
CASES: dict[str, tuple[int, dict[str, int]]] = {
    "2 layers, 16x16x9": (16, {"num_layers": 2, "num_attention_heads": 4, "ffn_dim": 32}),
    "8 layers, 64x64x9": (64, {"num_layers": 8, "num_attention_heads": 8, "ffn_dim": 384}),
}


class Contest:
    """One model, run by the library's pipeline and by our loop."""

    def __init__(self, side_px: int, layers: dict[str, int]) -> None:
        torch.manual_seed(0)
        self.side_px = side_px
        self.text = {
            name: torch.randn(1, TEXT_TOKENS, TEXT_DIM) for name in ("prompt_embeds", "negative_prompt_embeds")
        }
        self.components: dict[str, Any] = {
            "transformer": diffusers.WanTransformer3DModel(
                attention_head_dim=12, text_dim=TEXT_DIM, freq_dim=32, **layers
            ).eval(),
            "vae": diffusers.AutoencoderKLWan(base_dim=3, dim_mult=[1, 1, 1, 1], num_res_blocks=1).eval(),
            "scheduler": diffusers.UniPCMultistepScheduler(
                prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=3.0
            ),
        }
        self.library = diffusers.WanPipeline(tokenizer=None, text_encoder=None, **self.components)
        self.library.set_progress_bar_config(disable=True)

    def theirs(self) -> torch.Tensor:
        """A whole call of WanPipeline."""
        latents: torch.Tensor = self.library(
            **self.text,
            **self._shape(),
            num_inference_steps=STEPS,
            guidance_scale=GUIDANCE,
            generator=torch.Generator().manual_seed(0),
            output_type="latent",
        ).frames
        return latents

    @torch.no_grad()
    def ours(self, checkpoint_every: int | None = None) -> torch.Tensor:
        """A whole job of ours, with the making of its pipeline, which is the larger part of the overhead."""

        def on_step(report: StepReport) -> None:
            if checkpoint_every and report.step % checkpoint_every == 0:
                report.snapshot()

        blocks = create_blocks("WanBlocks")
        stage = split(blocks, self.text)["denoise"]
        pipe = build_pipe(blocks, stage, self.components, neighbours=neighbours_of({"vae": self.components["vae"]}))
        pipe.update_components(guider=pipe.guider.new(guidance_scale=GUIDANCE))
        generator = torch.Generator().manual_seed(0)
        inputs = self.text | self._shape() | {"num_inference_steps": STEPS, "generator": generator}
        state = run_stage(pipe, stage, PipelineState(inputs, {}), on_step=on_step)
        latents: torch.Tensor = state.values["latents"]
        return latents

    def _shape(self) -> dict[str, int]:
        return {"height": self.side_px, "width": self.side_px, "num_frames": 9}


def measure(contest: Contest, repeats: int) -> dict[str, Any]:
    """Median seconds per step of each way, and their ratios to the library's."""
    ways: dict[str, Callable[[], torch.Tensor]] = {
        "library": contest.theirs,
        "ours": contest.ours,
        "ours, checkpoint every 2 steps": lambda: contest.ours(2),
    }
    wanted = contest.theirs()
    equal = all(torch.equal(wanted, way()) for way in ways.values())
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, way in ways.items():
            started = time.perf_counter()
            way()
            times[name].append((time.perf_counter() - started) / STEPS)
    step_s = {name: median(values) for name, values in times.items()}
    return {
        "bit_equal": equal,
        "step_s": step_s,
        "ratio": {name: value / step_s["library"] for name, value in step_s.items()},
    }


def main() -> None:
    """Measures every case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7)
    repeats = parser.parse_args().repeats
    torch.set_num_threads(1)
    results = {}
    for label, (side_px, layers) in CASES.items():
        results[label] = measured = measure(Contest(side_px, layers), repeats)
        parts = (
            f"{name} {measured['step_s'][name] * 1e3:.2f} ms/step (x{ratio:.3f})"
            for name, ratio in measured["ratio"].items()
        )
        print(f"{label}: bit-equal {measured['bit_equal']}; {'; '.join(parts)}")
    print(json.dumps(results))


if __name__ == "__main__":
    main()
