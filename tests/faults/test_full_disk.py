"""The disk of the data folder fills up while a job runs: nothing is lost, and the job ends once there is room."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline import running_up

SIZE_BYTES = 3 * 1024**3
FREE_BYTES = 512 * 1024**2
"""Less than the object store keeps free, more than the bus needs."""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A filesystem of 3 GiB in memory, of which little is used."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE_BYTES}", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("a small disk can only be made by someone who may mount a filesystem")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def test_job_waits_for_room_and_ends(small_disk: Path) -> None:
    """The latents cannot be stored while the disk is full; the steps that made them are not repeated."""
    with running_up(small_disk / "data", VITASCOPE_DENOISE__MIN_STEP_S="0.3") as up:
        job = up.submit(steps=20)["id"]
        up.wait(job, lambda state: (state.get("step") or 0) >= 2)
        filling = small_disk / "filling"
        with filling.open("wb") as file:
            free_bytes = os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_frsize
            os.posix_fallocate(file.fileno(), 0, free_bytes - FREE_BYTES)
        up.wait(job, lambda state: state["step"] == 20)
        assert up.get(job)["status"] == "running"
        filling.unlink()
        done = up.wait(job)
        assert ("succeeded", 1) == (done["status"], done["attempt"]), done
        assert up.content(job)
