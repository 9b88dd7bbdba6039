"""Run by test_kill in processes of its own: `die FOLDER` and `resume FOLDER`."""

import hashlib
import json
import os
import signal
import sys
import warnings
from functools import partial
from pathlib import Path

warnings.simplefilter("ignore")

import torch  # noqa: E402 - the libraries warn while they are imported

from unit.engine.tiny_families import SAMPLERS, wan21_t2v  # noqa: E402
from unit.engine.tiny_job import Job  # noqa: E402
from vitascope.engine.loop import StepReport  # noqa: E402

STEP = 3


def job(sampler: str) -> Job:
    return Job(wan21_t2v, parts={"scheduler": SAMPLERS[sampler]()})


def save_and_die(path: Path, report: StepReport) -> None:
    if report.step == STEP:
        path.write_bytes(report.snapshot())
        os.kill(os.getpid(), signal.SIGKILL)


def die(folder: Path) -> dict[str, int]:
    """One fork a sampler, each killed in the middle; how each ended."""
    ends = {}
    for sampler in SAMPLERS:
        child = os.fork()
        if child == 0:
            job(sampler).denoise(partial(save_and_die, folder / sampler))
            os._exit(0)  # not reached
        ends[sampler] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return ends


def resume(folder: Path) -> dict[str, str]:
    return {sampler: digest(job(sampler), (folder / sampler).read_bytes()) for sampler in SAMPLERS}


def digest(job: Job, checkpoint: bytes | None = None) -> str:
    return hashlib.sha256(job.denoise(resume=checkpoint).values["latents"].numpy().tobytes()).hexdigest()


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps({"die": die, "resume": resume}[sys.argv[1]](Path(sys.argv[2]))))  # noqa: T201 - its answer
