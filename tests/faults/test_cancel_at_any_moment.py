"""Cancel, twice at the same time, at every moment of a job's life."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from faults.injectors import Scene, changed_network
from faults.relay import Mode
from faults.workload import Job

pytestmark = pytest.mark.asyncio(loop_scope="session")

State = dict[str, Any]


async def cancel_twice(scene: Scene, job: Job) -> list[int]:
    """Two calls at once; their statuses."""
    path = f"/v1/video-jobs/{job.id}/cancel"
    answers = await asyncio.gather(*(scene.clients.http.post(path) for _ in range(2)))
    job.is_cancelled = any(answer.status_code == httpx.codes.OK for answer in answers)
    return [answer.status_code for answer in answers]


async def check_cancelled(scene: Scene, job: Job) -> None:
    """Both calls succeed, the state is there at once, and the next job runs."""
    assert [200, 200] == await cancel_twice(scene, job)
    assert "cancelled" == (await scene.clients.get(job))["status"]
    assert "succeeded" == (await scene.clients.wait(await scene.clients.submit("least")))["status"]


def at(status: str, step: int = 0) -> Callable[[State], bool]:
    """Whether a job is at a step of a status."""
    return lambda state: state["status"] == status and (state["step"] or 0) >= step


@pytest.mark.parametrize(
    ("kind", "moment"),
    [("long", at("running")), ("long", at("running", 1)), ("long", at("running", 8)), ("long", at("running", 16)),
     ("clip", at("decoding")), ("clip", at("decoding", 9)), ("clip", at("encoding"))],
    ids=["before its first step", "first step", "middle step", "last step", "decode", "middle of decode", "encode"],
)  # fmt: skip
async def test_at_work(scene: Scene, kind: str, moment: Callable[[State], bool]) -> None:
    """In each stage."""
    job = await scene.clients.submit(kind, 0)
    await scene.clients.wait(job, lambda state: moment(state) or state["status"] == "decoding")
    await check_cancelled(scene, job)


async def test_queued(scene: Scene) -> None:
    """While it waits for a group."""
    running = [await scene.clients.submit("long", seed % 2) for seed in range(4)]
    job = await scene.clients.submit("long", 0)
    assert "queued" == (await scene.clients.get(job))["status"]
    await check_cancelled(scene, job)
    for other in running:
        assert "succeeded" == (await scene.clients.wait(other))["status"]


@pytest.mark.parametrize(("name", "status"), [("decode", "decoding"), ("encode", "encoding")])
async def test_between_stages(scene: Scene, name: str, status: str) -> None:
    """While its event waits for a process that stands still."""
    pid = scene.plant.send(name, signal.SIGSTOP)
    try:
        job = await scene.clients.submit("least", 0)
        await scene.clients.wait(job, at(status))
        assert [200, 200] == await cancel_twice(scene, job)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert "cancelled" == (await scene.clients.get(job))["status"]
    assert "succeeded" == (await scene.clients.wait(await scene.clients.submit("least")))["status"]


async def test_during_the_upload(scene: Scene) -> None:
    """While the finished file is on its way: it ends as cancelled without a file, or as succeeded with a whole one."""
    async with changed_network(scene.plant, "s3", "encode", Mode.SLOW, 0.3):
        job = await scene.clients.submit("least", 1)
        await scene.clients.wait(job, lambda state: at("encoding", 5)(state) or state["status"] == "succeeded")
        statuses = await cancel_twice(scene, job)
    state = await scene.clients.wait(job)
    assert (state["status"], statuses) in [("cancelled", [200, 200]), ("succeeded", [409, 409])]


async def _succeed(scene: Scene) -> Job:
    job = await scene.clients.submit("least", 0)
    await scene.clients.wait(job)
    return job


async def _fail(scene: Scene) -> Job:
    scene.plant.order("denoise", 2, "oom")
    job = await scene.clients.submit("least", 0)
    assert "failed" == (await scene.clients.wait(job))["status"]
    return job


async def _cancel(scene: Scene) -> Job:
    job = await scene.clients.submit("long", 0)
    assert [200, 200] == await cancel_twice(scene, job)
    return job


@pytest.mark.parametrize(
    ("make", "status", "answer"),
    [(_succeed, "succeeded", 409), (_fail, "failed", 409), (_cancel, "cancelled", 200)],
    ids=["succeeded", "failed", "cancelled"],
)
async def test_ended(scene: Scene, make: Callable[[Scene], Awaitable[Job]], status: str, answer: int) -> None:
    """What has ended stays as it is."""
    job = await make(scene)
    assert [answer, answer] == await cancel_twice(scene, job)
    assert status == (await scene.clients.get(job))["status"]
    job.is_cancelled = status == "cancelled"
