"""Every fault while jobs are in denoise, in decode and in encode at once."""

import asyncio

import pytest

from faults.injectors import BY_NAME, SERVERS, STAGES, Scene
from faults.workload import ENDED, Job, digest_frames

PARTS = ("scheduler", "publish", "denoise", "decode", "encode", "ingress")
STATES = frozenset({"running", "decoding", "encoding"})
FILL = ("clip", "clip", "long")
CASES = [
    *(("kill", target) for target in (*PARTS, *SERVERS)),
    *(("terminate", target) for target in (*PARTS, *SERVERS)),
    ("rolling restart", "stages"),
    ("preempt", "all"),
    *(("pause", target) for target in ("scheduler", "publish", "denoise", "decode", "encode", "nats")),
    *(("clock", target) for target in ("scheduler", "denoise", "encode")),
    ("nats wiped", "nats"),
    ("nats slow", "all"),
    *(("nats partition", target) for target in PARTS),
    ("nats cut", "denoise"),
    ("nats torn", "denoise"),
    *(("s3 partition", target) for target in ("denoise", "decode", "encode", "publish", "ingress")),
    *((f"s3 {how}", "all") for how in ("down", "slow", "busy", "torn")),
    *(
        (f"model {how}", target)
        for how in ("raises", "out of memory", "ends its process", "hangs")
        for target in STAGES
    ),
    *((f"{kind} event", "all") for kind in ("duplicate", "stale", "early")),
    *(("nonsense event", target) for target in STAGES),
]

pytestmark = [pytest.mark.long, pytest.mark.asyncio(loop_scope="session")]


async def fill_stages(scene: Scene) -> list[Job]:
    """Jobs, of which one at least is in each stage at this moment."""
    jobs: list[Job] = []
    for _ in range(3):
        more = [await scene.clients.submit(kind, index % 2) for index, kind in enumerate(FILL)]
        jobs += more
        while True:
            records = scene.witness.seen.newest_records()
            states = {records[job.id]["run"]["state"] for job in more if job.id in records}
            if states >= STATES:
                return jobs
            if states and states <= ENDED:
                break
            await asyncio.sleep(0.02)
    return jobs


@pytest.mark.parametrize(("name", "target"), CASES, ids=[f"{name} {target}" for name, target in CASES])
async def test_jobs_in_every_stage_survive(scene: Scene, name: str, target: str) -> None:
    """The jobs end as they would have, with the same frames; a job whose model ran out of memory says so."""
    jobs = await fill_stages(scene)
    await scene.play(BY_NAME[name], target)
    is_fatal = (name, target) == ("model out of memory", "denoise")
    for job in jobs:
        state = await scene.clients.wait(job)
        if is_fatal and state["status"] == "failed":
            assert "denoise_out_of_memory" == state["error"]["code"]
            continue
        assert "succeeded" == state["status"], state
        assert scene.references.frames[job.request] == digest_frames(await scene.clients.content(job))
