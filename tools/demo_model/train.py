"""Train the demo model, stage by stage: ``python -m demo_model.train all --work work --out model``."""

import argparse
import math
from pathlib import Path
from typing import Final

import torch

from demo_model.export import export_model
from demo_model.schedule import Budget
from demo_model.text_encoder import train_text
from demo_model.train_denoiser import train_denoiser
from demo_model.train_vae import train_vae

STEPS: Final = {"vae": 4000, "text": 1500, "denoiser": 20_000}
STAGES: Final = ("vae", "text", "denoiser", "export")


def main() -> None:
    """Run one stage, or all of them in order."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stage", choices=[*STAGES, "all"])
    parser.add_argument("--work", type=Path, default=Path("work"), help="folder of the checkpoints")
    parser.add_argument("--out", type=Path, default=Path("model"), help="folder of the exported repository")
    parser.add_argument("--steps", type=int, help=f"end of the stage, counted over all runs (default: {STEPS})")
    parser.add_argument("--minutes", type=float, default=math.inf, help="end of the stage, counted in this run")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    options.work.mkdir(parents=True, exist_ok=True)
    for stage in STAGES if options.stage == "all" else [options.stage]:
        run_stage(stage, options)


def run_stage(stage: str, options: argparse.Namespace) -> None:
    """Run one stage; each goes on from what it finds in the working folder."""
    work, seed = options.work, options.seed
    budget = Budget(options.steps or STEPS.get(stage, 1), options.minutes)
    match stage:
        case "vae":
            train_vae(work, seed=seed, budget=budget)
        case "text":
            train_text(work, seed=seed, budget=budget)
        case "denoiser":
            train_denoiser(work, seed=seed, budget=budget)
        case "export":
            export_model(work, options.out)


if __name__ == "__main__":
    main()
