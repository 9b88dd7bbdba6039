"""A repetition runs at once; a copy of an event changes nothing; the body of a cancelled job may be sent again."""

import pytest

from faults.injectors import Scene, kill
from faults.workload import digest_frames

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_stage_killed_in_the_middle_runs_again(scene: Scene) -> None:
    """Far inside the window in which copies are dropped, and without another run of denoise."""
    job = await scene.clients.submit("clip", 1)
    await scene.clients.wait(job, lambda state: state["status"] == "decoding")
    await kill(scene, "decode")
    state = await scene.clients.wait(job, deadline_s=90)
    assert ("succeeded", 1) == (state["status"], state["attempt"])
    assert scene.references.frames[job.request] == digest_frames(await scene.clients.content(job))


async def test_body_of_a_cancelled_job_makes_a_new_one(scene: Scene) -> None:
    """Sent again at once."""
    first = await scene.clients.submit("long", 0)
    await scene.clients.wait(first, lambda state: (state["step"] or 0) >= 2)
    await scene.clients.cancel(first)
    second = await scene.clients.submit("long", 0)
    assert first.id != second.id
    assert "succeeded" == (await scene.clients.wait(second))["status"]
    assert "cancelled" == (await scene.clients.get(first))["status"]


async def test_copies_of_stage_events_change_nothing(scene: Scene) -> None:
    """Every event of the job twice more, with its subject, headers and body: one run of each stage."""
    job = await scene.clients.submit("clip", 0)
    told = set[str]()
    while (await scene.clients.get(job))["status"] != "succeeded":
        for seen in list(scene.witness.seen.work):
            if seen.subject.endswith(job.id) and seen.subject not in told:
                told.add(seen.subject)
                for _ in range(2):
                    await scene.witness.client.publish(seen.subject, seen.data, headers=seen.headers)
    assert 3 == len(told)
    mine = [entry for entry in scene.plant.read_journal() if entry.get("job") == job.id]
    assert [1, 1] == [sum(entry["kind"] == kind for entry in mine) for kind in ("run", "encode")]
