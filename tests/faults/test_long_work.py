"""Work that lasts far longer than a delivery may stay unacknowledged runs once, also when its process stood still."""

import asyncio
import signal

import pytest

from faults.injectors import Scene
from faults.plant import CHECKPOINT_EVERY, SHORT_TIMES
from faults.workload import KINDS, digest_frames

ACK_WAIT_S = SHORT_TIMES["vitascope.adapters.limits:ACK_WAIT_S"]
STEPS = KINDS["hours"]["steps"]
SEEDS = 3

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_runs_once(scene: Scene) -> None:
    """Three jobs, two groups: per job one run, every step once, one encoding; another could have taken the work."""
    assert STEPS * scene.plant.options.step_s >= 3 * ACK_WAIT_S
    jobs = [await scene.clients.submit("hours", seed) for seed in range(SEEDS)]
    for job in jobs:
        state = await scene.clients.wait(job, deadline_s=200)
        assert ("succeeded", 1) == (state["status"], state["attempt"])
        scene.references.frames[job.request] = digest_frames(await scene.clients.content(job))
    journal = scene.plant.read_journal()
    for job in jobs:
        mine = [entry for entry in journal if entry.get("job") == job.id]
        assert list(range(1, STEPS + 1)) == [entry["step"] for entry in mine if entry["kind"] == "step"]
        assert [1, 1] == [sum(entry["kind"] == kind for entry in mine) for kind in ("run", "encode")]


async def test_paused_holder_is_replaced_and_fenced(scene: Scene) -> None:
    """Stopped for twice the limit: another group goes on from the checkpoint, and the woken one changes nothing."""
    job = await scene.clients.submit("hours", 0)
    await scene.clients.wait(job, lambda state: (state["step"] or 0) >= 20)
    group = scene.witness.seen.newest_records()[job.id]["run"]["group"]
    name = "denoise" if group == "g0" else "denoise1"
    scene.plant.send(name, signal.SIGSTOP)
    try:
        await asyncio.sleep(2 * ACK_WAIT_S)
    finally:
        scene.plant.send(name, signal.SIGCONT)
    state = await scene.clients.wait(job, deadline_s=200)
    assert ("succeeded", 2) == (state["status"], state["attempt"])
    mine = [entry for entry in scene.plant.read_journal() if entry.get("job") == job.id]
    second = [entry["step"] for entry in mine if entry["kind"] == "step" and entry["attempt"] == 2]
    assert list(range(second[0], STEPS + 1)) == second
    assert second[0] > 20 - 2 * CHECKPOINT_EVERY
    assert 1 == sum(entry["kind"] == "encode" for entry in mine)
    assert scene.references.frames[job.request] == digest_frames(await scene.clients.content(job))
