"""`vitascope generate`: submit, follow, fetch."""

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path

from ulid import ULID

from vitascope.cli.answers import Json
from vitascope.cli.client import Client
from vitascope.cli.exits import CommandError, Exit
from vitascope.cli.follow import follow_job, raise_unless_succeeded
from vitascope.cli.show import describe_stages, format_seconds, job_progress, out, print_json
from vitascope.cli.target import find_or_start_client


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


def generate_video(wish: Wish, output: Path, *, as_json: bool) -> None:
    """Make the video, write it, and say where it is and how long each stage took."""
    check_writable(output)
    began_s = time.monotonic()
    with job_progress() as progress, find_or_start_client(progress.wait) as client:
        job = submit_and_follow(client, wish, progress.job)
        size_bytes = client.download(job["id"], output)
    took_s = time.monotonic() - began_s
    if as_json:
        print_json({**job, "file": str(output.resolve()), "bytes": size_bytes, "wall_seconds": round(took_s, 3)})
        return
    out.print(str(output.resolve()), style="bold green", highlight=False, markup=False, soft_wrap=True)
    shape = f"{job['width']}x{job['height']}, {job['num_frames']} frames at {job['fps']} fps, seed {job['seed']}"
    out.print(f"  {shape}, {size_bytes:,} bytes", highlight=False, soft_wrap=True)
    out.print(f"  {describe_stages(job)}; {format_seconds(took_s)} in all", highlight=False, soft_wrap=True)


def submit_and_follow(client: Client, wish: Wish, on_change: Callable[[Json], None]) -> Json:
    """The job at its successful end. Ctrl-C cancels it, since nobody waits for it any more."""
    job = client.submit(wish.to_body(), str(ULID()))
    try:
        job = follow_job(client, job, on_change)
    except KeyboardInterrupt:
        client.cancel(job["id"])
        raise
    raise_unless_succeeded(job)
    return job


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
