"""Twenty queued jobs: denoise on one core and everything else on the other, against the monolith on one core.

    PYTHONPATH=tests python -m bench.throughput [--jobs 20]

Also: how much of the time the denoise process was busy in the sampler.
"""

import argparse
import json
import os
import tempfile
import time
from datetime import datetime
from pathlib import Path

from bench.contenders import running_monolith

from pipeline import Up, running_up

SHAPE = {"size": "128x128", "frames": 33, "steps": 20, "fps": 8}
DENOISE_CORE, OTHER_CORE = 0, 1


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=20)
    jobs = parser.parse_args().jobs
    monolith_s = run_monolith(jobs)
    pipeline_s, busy_s = run_pipeline(jobs)
    figures = {
        "shape": SHAPE,
        "jobs": jobs,
        "monolith_s": monolith_s,
        "pipeline_s": pipeline_s,
        "ratio": monolith_s / pipeline_s,
        "sampler_busy": busy_s["share"],
        "sampler_s": busy_s["seconds"],
    }
    print(f"monolith {monolith_s:.1f} s, pipeline {pipeline_s:.1f} s: {figures['ratio']:.2f} times the throughput")
    print(f"denoise process busy in the sampler {100 * busy_s['share']:.1f} % of the time")
    print(json.dumps(figures))


def run_monolith(jobs: int) -> float:
    """Seconds for all clips, one after the other, on one core; loading does not count."""
    with running_monolith(jobs, SHAPE, threads=1, cpu=DENOISE_CORE) as monolith:
        return sum(monolith.make()["wall_s"] for _ in range(jobs))


def run_pipeline(jobs: int) -> tuple[float, dict[str, float]]:
    """Seconds from the first request to the last file, and the sampler's share of the denoise process's time."""
    threads = {f"VITASCOPE_{stage}__THREADS": "1" for stage in ("DENOISE", "DECODE", "ENCODE")}
    with tempfile.TemporaryDirectory() as folder, running_up(Path(folder) / "up", **threads) as up:
        pin(up)
        up.wait(up.submit(**SHAPE | {"steps": 1})["id"])
        began_s = time.perf_counter()
        ids = [up.submit(**SHAPE, seed=index)["id"] for index in range(jobs)]
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
