"""How fast the denoise process answers its health checks while it computes steps, against when it has nothing to do.

    PYTHONPATH=tests python -m bench.health [--size 128x128] [--frames 33] [--steps 12]

A probe that waits for a step would have a busy process restarted. Asked every 20 ms, on one machine with everything
else.
"""

import argparse
import json
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles

import httpx

from pipeline import Up, running_up

PAUSE_S = 0.02
IDLE_S = 4.0
TARGETS = ("/v2/health/live", "/v2/health/ready")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="128x128")
    parser.add_argument("--frames", type=int, default=33)
    parser.add_argument("--steps", type=int, default=12)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, running_up(Path(folder)) as up:
        address = f"http://127.0.0.1:{json.loads((up.data / 'run' / 'pipeline-ports.json').read_text())['denoise']}"
        idle = probe(address, lambda: time.sleep(IDLE_S))
        job = up.submit(size=options.size, frames=options.frames, steps=options.steps)
        up.wait(job["id"], lambda state: state["step"] >= 1)
        busy = probe(address, lambda: up.wait(job["id"], lambda state: state["status"] != "running"))
        step_s = measure_step(up, job["id"], options.steps)
    figures = {"step_s": step_s, "idle": summarize(idle), "busy": summarize(busy)}
    for name, answers in (("idle", idle), ("busy", busy)):
        of = summarize(answers)
        print(f"{name}: median {of['median_ms']:.1f} ms, 99 % in {of['p99_ms']:.1f} ms, all in {of['max_ms']:.1f} ms")
    print(json.dumps(figures))


def probe(address: str, work: Callable[[], object]) -> list[float]:
    """Seconds of each answer while the work goes on in another thread."""
    worker = threading.Thread(target=work)
    worker.start()
    answers = []
    with httpx.Client(base_url=address, timeout=30) as client:
        while worker.is_alive():
            for target in TARGETS:
                began = time.perf_counter()
                client.get(target).raise_for_status()
                answers.append(time.perf_counter() - began)
            time.sleep(PAUSE_S)
    worker.join()
    return answers


def measure_step(up: Up, job: str, steps: int) -> float:
    """Mean seconds of the job's steps, from its record."""
    return float(up.stored_record(job)["result"]["stage_s"]["denoise"]) / steps


def summarize(answers: list[float]) -> dict[str, float]:
    """In milliseconds."""
    return {
        "answers": len(answers),
        "median_ms": 1000 * median(answers),
        "p99_ms": 1000 * quantiles(answers, n=100)[-1],
        "max_ms": 1000 * max(answers),
    }


if __name__ == "__main__":
    main()
