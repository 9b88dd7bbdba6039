"""Every fault while jobs are in denoise, in decode and in encode at once; two pipelines are disturbed side by side."""

import asyncio

import pytest

from faults.injectors import BY_NAME, SERVERS, STAGES, Scene
from faults.workload import ENDED, Job, digest_frames

PARTS = ("scheduler", "publish", "deliver", "denoise", "decode", "encode", "ingress")
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

PAIRS = [tuple(CASES[at : at + 2]) for at in range(0, len(CASES), 2)]
"""Neighbours take about equally long."""

pytestmark = pytest.mark.asyncio(loop_scope="session")


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


@pytest.mark.parametrize("pair", PAIRS, ids=[" and ".join(map(" ".join, pair)) for pair in PAIRS])
async def test_jobs_in_every_stage_survive(lanes: tuple[Scene, Scene], pair: tuple[tuple[str, str], ...]) -> None:
    """The jobs end as they would have, with the same frames; a job whose model ran out of memory says so."""
    both = (survive(scene, name, target) for scene, (name, target) in zip(lanes, pair, strict=False))
    outcomes = await asyncio.gather(*both, return_exceptions=True)
    errors = [error for error in outcomes if error is not None]
    if errors:
        raise BaseExceptionGroup("jobs did not survive", errors)


async def survive(scene: Scene, name: str, target: str) -> None:
    """Play one fault on full stages, and look at every job afterwards."""
    jobs = await fill_stages(scene)
    await scene.play(BY_NAME[name], target)
    is_fatal = (name, target) == ("model out of memory", "denoise")
    for job in jobs:
        state = await scene.clients.wait(job)
        if is_fatal and state["status"] == "failed":
            assert "denoise_out_of_memory" == state["error"]["code"]
            continue
        assert "succeeded" == state["status"], (name, target, state)
        assert scene.references.frames[job.request] == digest_frames(await scene.clients.content(job)), (name, target)
