"""A whole pipeline for tests: `vitascope up` as a user starts it, in a process of its own."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
from minio import Minio

READY_DEADLINE_S = 240.0
JOB_DEADLINE_S = 240.0
STOP_DEADLINE_S = 90.0
POLL_S = 0.05

PROMPT = "a red circle moving right on a white background"
SMALL = {"prompt": PROMPT, "size": "64x64", "frames": 5, "fps": 8, "steps": 4, "seed": 7}
"""The quickest job that goes through every stage."""

ENDED = {"succeeded", "failed", "cancelled", "refused", "withheld", "expired"}


@dataclass(frozen=True)
class Up:
    """A running pipeline."""

    url: str
    process: subprocess.Popen[str]
    data: Path
    s3_endpoint: str

    @property
    def env(self) -> dict[str, str]:
        """The environment that makes the command line talk to this pipeline."""
        return {**os.environ, "VITASCOPE_URL": self.url}

    def children(self) -> dict[str, psutil.Process]:
        """The processes of the pipeline by name."""
        found = {}
        for child in psutil.Process(self.process.pid).children(recursive=True):
            try:
                mark = child.environ().get("VITASCOPE_RUN", "")
            except psutil.Error:
                continue
            if mark:
                found[mark.rsplit(":", 1)[1]] = child
        return found

    def submit(self, **changes: Any) -> dict[str, Any]:
        """Create a job: `SMALL` with changes."""
        return self.call("POST", "/v1/video-jobs", json={**SMALL, **changes})

    def get(self, job: str) -> dict[str, Any]:
        """The job as it is now."""
        return self.call("GET", f"/v1/video-jobs/{job}")

    def cancel(self, job: str) -> dict[str, Any]:
        """Cancel a job."""
        return self.call("POST", f"/v1/video-jobs/{job}/cancel")

    def content(self, job: str) -> bytes:
        """The finished video."""
        response = httpx.get(f"{self.url}/v1/video-jobs/{job}/content", timeout=30)
        response.raise_for_status()
        return response.content

    def wait(self, job: str, until: Callable[[dict[str, Any]], bool] | None = None) -> dict[str, Any]:
        """The job when it has ended, or when `until` holds of it; through restarts of the door."""
        wanted = until or (lambda state: state["status"] in ENDED)
        deadline = time.monotonic() + JOB_DEADLINE_S
        state: dict[str, Any] = {}
        while time.monotonic() < deadline:
            assert self.process.poll() is None, f"the pipeline has ended with status {self.process.poll()}: {state}"
            try:
                state = self.get(job)
            except (httpx.TransportError, httpx.HTTPStatusError):
                time.sleep(POLL_S)
                continue
            if wanted(state):
                return state
            assert until is None or state["status"] not in ENDED, f"ended before it was as wanted: {state}"
            time.sleep(POLL_S)
        raise AssertionError(f"not as wanted within {JOB_DEADLINE_S:g} s: {state}")

    def object_classes(self, job: str) -> set[str]:
        """The classes of objects (first part of the key) that the store holds of a job."""
        client = self.store()
        keys = [str(item.object_name) for item in client.list_objects("vitascope", recursive=True)]
        return {key.split("/", 1)[0] for key in keys if f"/{job}/" in key}

    def stored_record(self, job: str) -> dict[str, Any]:
        """The copy of an ended job's record in the object store, as soon as it is there."""
        deadline = time.monotonic() + JOB_DEADLINE_S
        while time.monotonic() < deadline:
            with self.store().get_object("vitascope", f"records/default/{job}/ended.json") as answer:
                record: dict[str, Any] = json.loads(answer.read())
            if record["run"]["state"] in ENDED:
                return record
            time.sleep(POLL_S)
        raise AssertionError(f"no copy of the ended record of {job}")

    def store(self) -> Minio:
        """A client of the object store."""
        secrets = json.loads((self.data / "run" / "credentials.json").read_text())
        endpoint = self.s3_endpoint.removeprefix("http://")
        return Minio(endpoint, secrets["s3_access_key"], secrets["s3_secret_key"], secure=False)

    def call(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        """An answer of the API; an error status raises."""
        response = httpx.request(method, f"{self.url}{path}", timeout=30, **options)
        response.raise_for_status()
        answer: dict[str, Any] = response.json()
        return answer

    def run_command(self, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run `vitascope …` against this pipeline."""
        return run_vitascope(*arguments, env={**self.env, **more})


def run_vitascope(*arguments: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command line to its end."""
    command = [sys.executable, "-m", "vitascope", *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=JOB_DEADLINE_S * 2, check=False)


@contextmanager
def running_up(data: Path, *arguments: str, **env: str) -> Iterator[Up]:
    """A pipeline in a data folder; stopped at the end."""
    process = start_up(data, *arguments, **env)
    try:
        yield wait_ready(process, data)
    finally:
        stop_up(process)


def start_up(data: Path, *arguments: str, **env: str) -> subprocess.Popen[str]:
    """Start `vitascope up`; it is not ready yet."""
    command = [sys.executable, "-m", "vitascope", "up", "--data", str(data), "--port", "0", "--json", *arguments]
    return subprocess.Popen(
        command, env={**os.environ, **env}, stdout=subprocess.PIPE, text=True, start_new_session=True
    )


def wait_ready(process: subprocess.Popen[str], data: Path) -> Up:
    """The pipeline once a job would run."""
    assert process.stdout is not None
    deadline = time.monotonic() + READY_DEADLINE_S
    for line in process.stdout:
        report = json.loads(line)
        if report["event"] == "ready":
            return Up(report["url"], process, data, report["s3_endpoint"])
        assert report["event"] == "child", report
        assert time.monotonic() < deadline, "not ready in time"
    raise AssertionError(f"ended with status {process.wait()} before it was ready; logs in {data / 'logs'}")


def stop_up(process: subprocess.Popen[str], number: signal.Signals = signal.SIGTERM) -> int:
    """Tell it to stop, and wait until it has; its status."""
    if process.poll() is None:
        process.send_signal(number)
    try:
        process.communicate(timeout=STOP_DEADLINE_S)
    finally:
        process.kill()
        process.communicate()
    return process.returncode
