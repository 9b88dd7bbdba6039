"""`vitascope generate`: submit, follow, fetch."""

import math
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from types import FrameType

from ulid import ULID

from vitascope.cli.answers import Json
from vitascope.cli.client import Client
from vitascope.cli.exits import CommandError, Exit
from vitascope.cli.follow import follow_job, raise_unless_succeeded
from vitascope.cli.show import JobProgress, describe_stages, err, format_seconds, job_progress, out, print_json
from vitascope.cli.target import find_client, find_or_start_client

STOP_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Wish:
    """What to make; None leaves a value to the model's defaults."""

    prompt: str
    model: str | None = None
    size: str | None = None
    frames: int | None = None
    fps: str | None = None
    steps: int | None = None
    guidance: float | None = None
    negative_prompt: str | None = None
    seed: int | None = None

    def to_body(self) -> Json:
        """The body of the request: only what was wished for."""
        wished = {field.name: getattr(self, field.name) for field in fields(self)}
        body = {name: value for name, value in wished.items() if value is not None}
        if self.fps is not None:
            body["fps"] = read_fps(self.fps)
        return body


def read_fps(text: str) -> str | float | int:
    """A rate as the API takes it: whole, decimal, or, as a fraction or whatever else it is, as text."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        rate = float(text)
    except ValueError:
        return text
    return rate if math.isfinite(rate) else text  # JSON knows no other


def generate_video(wish: Wish, output: Path, *, keeps: bool, as_json: bool) -> None:
    """Make the video, write it, and say where it is and how long each stage took.

    With `keeps` an interrupted job goes on, so it needs a service that does.
    """
    check_writable(output)
    began_s = time.monotonic()
    with stop_signals_as_interrupt(), job_progress() as progress, _find_service(progress, keeps=keeps) as client:
        job = submit_and_follow(client, wish, progress.job, keeps=keeps)
        size_bytes = client.download(job["id"], output)
    took_s = time.monotonic() - began_s
    if as_json:
        print_json({**job, "file": str(output.resolve()), "bytes": size_bytes, "wall_seconds": round(took_s, 3)})
        return
    out.print(str(output.resolve()), style="bold green", highlight=False, markup=False, soft_wrap=True)
    shape = f"{job['width']}x{job['height']}, {job['num_frames']} frames at {job['fps']} fps, seed {job['seed']}"
    out.print(f"  {shape}, {size_bytes:,} bytes", highlight=False, soft_wrap=True)
    out.print(f"  {describe_stages(job)}; {format_seconds(took_s)} in all", highlight=False, soft_wrap=True)


def submit_and_follow(client: Client, wish: Wish, on_change: Callable[[Json], None], *, keeps: bool = False) -> Json:
    """The job at its successful end.

    Ctrl-C cancels it, since nobody waits for it any more, or, with `keeps`, says how to come back to it.
    """
    body, key, job = wish.to_body(), str(ULID()), None
    try:
        job = client.submit(body, key)
        job = follow_job(client, job, on_change)
    except KeyboardInterrupt:
        job = job or client.submit(body, key)  # whether the first request arrived or not: now the job has a name
        if keeps:
            err.print(f"{job['id']} goes on: vitascope jobs watch {job['id']}", highlight=False, soft_wrap=True)
        else:
            _cancel(client, job["id"])
        raise
    raise_unless_succeeded(job)
    return job


def _cancel(client: Client, job: str) -> None:
    try:
        client.cancel(job)
    except CommandError as error:
        if error.word == "not_cancellable":  # it ended in the moment before
            return
        what, fix = f"job {job} may go on: {error.what}", f"Cancel it with `vitascope jobs cancel {job}`."
        raise CommandError(error.code, what, why=error.why, fix=fix, word=error.word) from error


@contextmanager
def _find_service(progress: JobProgress, *, keeps: bool) -> Iterator[Client]:
    if keeps:
        yield find_client()
        return
    with find_or_start_client(progress.wait) as client:
        yield client


@contextmanager
def stop_signals_as_interrupt() -> Iterator[None]:
    """SIGTERM and the end of the terminal are Ctrl-C, once: those that follow do not disturb the clearing up."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        for number in taken:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    # What whoever started this process has had ignored, as `nohup` does, stays so.
    taken = [number for number in STOP_SIGNALS if signal.getsignal(number) is signal.SIG_DFL]
    for number in taken:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


def check_writable(output: Path) -> None:
    """Find out before any work that the file cannot be written.

    Raises:
        CommandError: `USAGE`.
    """
    folder, why = output.resolve().parent, ""
    if output.is_dir():
        why = "it is a folder"
    elif not folder.is_dir():
        why = f"there is no folder {folder}"
    elif not os.access(folder, os.W_OK):
        why = f"the folder {folder} is not writable"
    if why:
        raise CommandError(Exit.USAGE, f"{output} cannot be written", why=why, fix="Name a file with -o.")
