"""What test_resume interrupts: a two-expert model with each sampler, and guiders that remember.

Run by it in a process of its own as `FOLDER`: resumes every checkpoint below the folder, each in objects loaded afresh.
"""

import hashlib
import json
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

warnings.simplefilter("ignore")

import diffusers  # noqa: E402 - the libraries warn while they are imported
import torch  # noqa: E402

from unit.engine import tiny_folder  # noqa: E402
from unit.engine.tiny_families import FLOW, SAMPLERS, wan21_t2v  # noqa: E402
from unit.engine.tiny_job import Job  # noqa: E402
from vitascope.engine import DenoiseModel  # noqa: E402
from vitascope.engine.loop import OnStep, StepReport, Stop  # noqa: E402

STEPS = 6
MODELS = "models"
REQUEST = replace(tiny_folder.REQUEST, num_inference_steps=STEPS)
EXPERTS_WITH: dict[str, Callable[[], Any]] = SAMPLERS | {
    # Two steps of memory and noise of its own.
    "sde": lambda: diffusers.DPMSolverMultistepScheduler(algorithm_type="sde-dpmsolver++", **FLOW),
}
GUIDERS: dict[str, Callable[[], Any]] = {
    "momentum": lambda: diffusers.AdaptiveProjectedGuidance(
        guidance_scale=4.0, adaptive_projected_guidance_momentum=-0.5
    ),
    "zero-star": lambda: diffusers.ClassifierFreeZeroStarGuidance(guidance_scale=4.0),
}
GUIDED = {
    "momentum-unipc": ("momentum", "unipc"),
    "momentum-ancestral": ("momentum", "ancestral"),
    "zero-star-dpm": ("zero-star", "dpm"),
}
CASES = (*(f"experts-{sampler}" for sampler in EXPERTS_WITH), *GUIDED)


@dataclass(frozen=True)
class Resumed:
    """What became of one run: sha256 of its result, and of its checkpoint after each step that it ran."""

    result: str
    checkpoints: dict[str, str]


def save_models(folder: Path) -> None:
    """A model folder for each sampler, with the same weights."""
    for sampler, make in EXPERTS_WITH.items():
        own = tiny_folder.save(folder / MODELS / sampler)
        scheduler = make()
        scheduler.save_pretrained(own / "scheduler")
        index = json.loads((own / "model_index.json").read_text())
        index["scheduler"] = ["diffusers", type(scheduler).__name__]
        (own / "model_index.json").write_text(json.dumps(index))


def load(folder: Path, sampler: str) -> DenoiseModel:
    return DenoiseModel.load(folder / MODELS / sampler, dtype=torch.float32)


def run(folder: Path, case: str, on_step: OnStep | None = None, resume: bytes | None = None) -> bytes:
    """Denoises in objects that nobody used before."""
    if case in GUIDED:
        guider, sampler = GUIDED[case]
        job = Job(wan21_t2v, steps=STEPS, parts={"guider": GUIDERS[guider](), "scheduler": SAMPLERS[sampler]()})
        return job.hand_over(job.denoise(on_step, resume))
    return load(folder, case.removeprefix("experts-")).run(REQUEST, on_step, resume)


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def resume_each(folder: Path, case: str) -> dict[str, Any]:
    """Goes on from every checkpoint of a case to the end, and from the first with a stop after every step."""
    saved = {step: (folder / case / str(step)).read_bytes() for step in range(1, STEPS + 1)}
    return {
        "once": {str(step): vars(go_on(folder, case, checkpoint)) for step, checkpoint in saved.items()},
        "again": digest(go_on_with_stops(folder, case, saved[1])),
    }


def go_on(folder: Path, case: str, checkpoint: bytes | None) -> Resumed:
    digests: dict[str, str] = {}

    def on_step(report: StepReport) -> None:
        digests[str(report.step)] = digest(report.snapshot())

    return Resumed(digest(run(folder, case, on_step, checkpoint)), digests)


def go_on_with_stops(folder: Path, case: str, checkpoint: bytes) -> bytes:
    saved = [checkpoint]

    def stop(report: StepReport) -> None:
        saved.append(report.snapshot())
        raise Stop

    for _ in range(STEPS):
        try:
            return run(folder, case, stop, saved[-1])
        except Stop:
            continue
    raise AssertionError("no step left after so many stops")


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps({case: resume_each(Path(sys.argv[1]), case) for case in CASES}))  # noqa: T201 - its answer
