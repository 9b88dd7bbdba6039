"""Twenty queued jobs: denoise on one core and everything else on the other, against the monolith on one core.

    PYTHONPATH=tests python -m bench.throughput [--jobs 20] [--size 128x128] [--frames 33] [--steps 20]

Also: how much of the time the denoise process was busy in the sampler, and the gain that the overlap could give at
best, which is that of the monolith's whole time to its denoise time.
"""

import argparse
import json
import os
import tempfile
import time
from datetime import datetime
from pathlib import Path
from typing import Any

from bench.contenders import running_monolith

from pipeline import Up, running_up

DENOISE_CORE, OTHER_CORE = 0, 1


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=20)
    parser.add_argument("--size", default="128x128")
    parser.add_argument("--frames", type=int, default=33)
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()
    shape = {"size": options.size, "frames": options.frames, "steps": options.steps, "fps": 8}
    monolith_s, denoise_s = run_monolith(options.jobs, shape)
    pipeline_s, busy_s = run_pipeline(options.jobs, shape)
    figures = {
        "shape": shape,
        "jobs": options.jobs,
        "monolith_s": monolith_s,
        "pipeline_s": pipeline_s,
        "ratio": monolith_s / pipeline_s,
        "best_ratio": monolith_s / denoise_s,
        "sampler_busy": busy_s["share"],
        "sampler_s": busy_s["seconds"],
    }
    print(f"monolith {monolith_s:.1f} s, pipeline {pipeline_s:.1f} s: {figures['ratio']:.2f} times the throughput")
    print(f"at best {figures['best_ratio']:.2f}, if nothing but denoise took time")
    print(f"denoise process busy in the sampler {100 * busy_s['share']:.1f} % of the time")
    print(json.dumps(figures))


def run_monolith(jobs: int, shape: dict[str, Any]) -> tuple[float, float]:
    """Seconds for all clips, one after the other, on one core, and those of denoise alone; loading does not count."""
    with running_monolith(jobs, shape, threads=1, cpu=DENOISE_CORE) as monolith:
        clips = [monolith.make() for _ in range(jobs)]
    return sum(clip["wall_s"] for clip in clips), sum(clip["denoise_s"] for clip in clips)


def run_pipeline(jobs: int, shape: dict[str, Any]) -> tuple[float, dict[str, float]]:
    """Seconds from the first request to the last file, and the sampler's share of the denoise process's time."""
    threads = {f"VITASCOPE_{stage}__THREADS": "1" for stage in ("DENOISE", "DECODE", "ENCODE")}
    with tempfile.TemporaryDirectory() as folder, running_up(Path(folder) / "up", **threads) as up:
        pin(up)
        up.wait(up.submit(**shape | {"steps": 1})["id"])
        began_s = time.perf_counter()
        ids = [up.submit(**shape, seed=index)["id"] for index in range(jobs)]
        for job in ids:
            up.wait(job)
        wall_s = time.perf_counter() - began_s
        return wall_s, compute_busy(up, ids)


def compute_busy(up: Up, jobs: list[str]) -> dict[str, float]:
    """Seconds in the sampler, and their share of the span from the first dispatch to the end of the last denoise."""
    records = [up.stored_record(job) for job in jobs]
    busy_s = sum(record["result"]["stage_s"]["denoise"] for record in records)
    begin = min(datetime.fromisoformat(record["times"]["started"]) for record in records)
    end = max(datetime.fromisoformat(record["times"]["denoised"]) for record in records)
    return {"seconds": busy_s, "share": busy_s / (end - begin).total_seconds()}


def pin(up: Up) -> None:
    """Denoise on one core, every other process of the pipeline on the other, threads included."""
    for name, process in up.children().items():
        core = DENOISE_CORE if name == "denoise" else OTHER_CORE
        for thread in process.threads():
            os.sched_setaffinity(thread.id, {core})


if __name__ == "__main__":
    main()
