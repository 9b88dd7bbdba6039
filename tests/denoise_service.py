"""A real denoise process on ports in memory, with an engine that counts; what happens is told on stdout as JSON.

It begins a job and stays in one of its steps until the group drains, which only a signal brings about.
"""

import asyncio
import json
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from unit.denoise.chain import Chain
from vitascope.contracts.flow import Stage
from vitascope.contracts.pools import GroupState
from vitascope.contracts.subjects import work_subject
from vitascope.runtime.ports import SystemClock
from vitascope.runtime.serving import StageService
from vitascope.runtime.settings import LogSettings
from vitascope.runtime.stage_loop import StageLoop
from vitascope.runtime.telemetry import configure_logs

STEP = 3
LOOK_S = 0.01


def tell(what: str, **fields: Any) -> None:
    sys.stdout.write(json.dumps({"what": what, **fields}) + "\n")
    sys.stdout.flush()


async def main(chain: Chain) -> int:
    async def load() -> None:
        """The engine needs none."""

    async def stay() -> None:
        tell("in step", step=STEP)
        while chain.group.row.state is not GroupState.DRAINING:  # noqa: ASYNC110 (the row tells nobody of its changes)
            await asyncio.sleep(LOOK_S)

    chain.denoiser.points.acts[STEP] = stay
    loop = StageLoop(chain.denoise(), chain.bus, chain.ledger, clock=SystemClock(), pool="default", group="g0", limit=2)
    service = StageService(loop, chain.bus, chain.ledger, clock=SystemClock(), name="denoise", load=load, grace_s=30.0)
    work = await chain.start()
    subject = work_subject(Stage.DENOISE, "default", work.job, "g0")
    await chain.bus.publish_work(subject, work.to_event(chain.clock.now()))
    status = await service.serve("127.0.0.1", 0)
    run = (await chain.record(work.job)).run
    has_work = await chain.bus.has_work(subject)
    tell("left", state=run.state, reason=run.reason, step=run.step, ran=chain.denoiser.ran, has_work=has_work)
    return status


async def run(folder: Path) -> int:
    with ThreadPoolExecutor(1, "sampler") as pool:
        return await main(Chain(pool, folder))


if __name__ == "__main__":
    configure_logs(LogSettings(), "denoise")
    with tempfile.TemporaryDirectory() as scratch:
        sys.exit(asyncio.run(run(Path(scratch))))
