"""The disk of the data folder fills up while a job runs: nothing is lost, and the job ends once there is room."""

import asyncio
import io
import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from minio import Minio
from minio.error import MinioException
from urllib3.exceptions import HTTPError

from pipeline import SMALL, running_up
from servers import running_s3
from vitascope.local import child

TRIES = 4
OBJECTS = 200
SIZE_BYTES = 3 * 1024**3


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


def test_nothing_is_lost_and_all_ends_when_there_is_room(small_disk: Path) -> None:
    """With no byte left a request is refused with 503 or, if its record still fits, kept; all that was kept ends."""
    with running_up(small_disk / "data", VITASCOPE_DENOISE__MIN_STEP_S="0.3") as up:
        accepted = [up.submit(steps=20)["id"]]
        up.wait(accepted[0], lambda state: (state.get("step") or 0) >= 2)
        filling = small_disk / "filling"
        fill(filling)
        refused = 0
        for seed in range(TRIES):
            response = httpx.post(f"{up.url}/v1/video-jobs", json={**SMALL, "seed": seed}, timeout=60)
            assert response.status_code in {202, 503}
            if response.status_code == 202:
                accepted.append(response.json()["id"])
            else:
                refused += 1
        filling.unlink()
        assert ["succeeded"] * len(accepted) == [up.wait(job)["status"] for job in accepted]
        assert refused + len(accepted) == TRIES + 1
        assert all(up.content(job) for job in accepted)


async def test_the_object_store_writes_again_once_there_is_room(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its index, broken by a write that met the full disk, is mended without anybody's help."""
    monkeypatch.setattr(child, "LIVE_INTERVAL_S", 1.0)
    async with running_s3(small_disk) as s3:
        client = Minio(s3.address, s3.access_key, s3.secret_key, secure=False, region=s3.region)
        await asyncio.to_thread(client.make_bucket, "bucket")
        names = [f"old/{number}" for number in range(OBJECTS)]
        for name in names:
            await asyncio.to_thread(client.put_object, "bucket", name, io.BytesIO(b"v"), 1)
        filling = small_disk / "filling"
        await asyncio.to_thread(fill, filling)
        with pytest.raises(HTTPError):
            await asyncio.to_thread(remove_all, client, names)
        filling.unlink()
        await wait_writable(client)


def remove_all(client: Minio, names: list[str]) -> None:
    """Remove objects one by one, which writes to the index alone."""
    for name in names:
        client.remove_object("bucket", name)


async def wait_writable(client: Minio) -> None:
    """Return once an object can be written into the folder whose index is broken; room is looked for once a minute."""
    async with asyncio.timeout(150):
        while True:
            try:
                await asyncio.to_thread(client.put_object, "bucket", "old/after", io.BytesIO(b"v"), 1)
            except (MinioException, HTTPError):
                await asyncio.sleep(0.5)
            else:
                return


def fill(path: Path) -> None:
    """Take every byte that is left, whatever others take meanwhile."""
    with path.open("wb") as file:
        for piece_bytes in (64 * 1024**2, 1024**2, 4096):
            with suppress(OSError):
                while True:
                    os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, piece_bytes)
