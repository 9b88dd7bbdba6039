"""The two contenders of a pipeline benchmark: the monolith as a child process, and a running pipeline."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

MONOLITH = Path(__file__).with_name("monolith.py")
PROMPT = "a red circle moving right on a white background"


class Monolith:
    """Makes one clip each time it is asked."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def make(self) -> dict[str, float]:
        """Seconds of the next clip."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        timing: dict[str, float] = json.loads(self._process.stdout.readline())
        return timing


@contextmanager
def running_monolith(clips: int, shape: dict[str, Any], threads: int, cpu: int | None = None) -> Iterator[Monolith]:
    """A loaded monolith, pinned to one core if `cpu` names it."""
    pin = ["taskset", "-c", str(cpu)] if cpu is not None else []
    words = {"clips": clips, "size": shape["size"], "frames": shape["frames"], "steps": shape["steps"]}
    arguments = [f"--{name}={value}" for name, value in {**words, "threads": threads}.items()]
    process = subprocess.Popen(
        [*pin, sys.executable, str(MONOLITH), *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield Monolith(process)
    finally:
        process.kill()
        process.communicate()


def make_clip(url: str, shape: dict[str, Any], seed: int) -> dict[str, Any]:
    """One clip through the pipeline, alone: seconds from the request to the news that it is there, and the job."""
    began_s = time.perf_counter()
    with httpx.Client(base_url=url, timeout=600) as http:
        job = http.post("/v1/video-jobs", json={"prompt": PROMPT, "seed": seed, "guidance": 4, **shape}).json()
        with http.stream("GET", f"/v1/video-jobs/{job['id']}/events") as events:
            for line in events.iter_lines():
                if line.startswith("data:") and json.loads(line[5:]).get("status") == "succeeded":
                    break
        wall_s = time.perf_counter() - began_s
        return {"wall_s": wall_s, "job": http.get(f"/v1/video-jobs/{job['id']}").json()}
