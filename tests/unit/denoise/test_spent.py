"""What a job costs: the GPU time of every try that says so, on however many GPUs."""

from types import SimpleNamespace

import pytest

from unit.denoise.chain import STEPS, Chain, Machine
from vitascope.contracts.flow import State
from vitascope.denoise import handler
from vitascope.runtime.stage import Pulse

STEP_S = 2.0
RANKS = 4


@pytest.mark.parametrize("ending", ["drain", "preempt"])
async def test_tries_that_were_given_up_count(chain: Chain, monkeypatch: pytest.MonkeyPatch, ending: str) -> None:
    """Three steps of one try and three of the next, two seconds each, on four GPUs."""
    passed_s = 0.0

    async def take_time() -> None:
        nonlocal passed_s
        passed_s += STEP_S

    async def give_up() -> None:
        await take_time()
        await (first.drain() if ending == "drain" else chain.preempt(work.job))

    monkeypatch.setattr(handler, "time", SimpleNamespace(monotonic=lambda: passed_s))
    machine = Machine(chain.denoiser, chain.make_group("g0", RANKS), chain.pool)
    first, work = chain.denoise(on=machine), await chain.start()
    chain.denoiser.points.acts |= dict.fromkeys(range(1, STEPS + 1), take_time) | {3: give_up}
    await first.handle(work, Pulse())
    queued = await chain.record(work.job)
    assert (State.QUEUED, 3 * STEP_S * RANKS) == (queued.state, queued.result.actual_gpu_s)
    assert queued.times.first_step is not None
    chain.clock.advance(60)
    await chain.denoise(on=machine).handle(await chain.dispatch(work.job), Pulse())
    done = await chain.record(work.job)
    assert (State.DECODING, STEPS * STEP_S * RANKS) == (done.state, done.result.actual_gpu_s)
    assert queued.times.first_step == done.times.first_step


async def test_job_that_never_began_costs_nothing(chain: Chain) -> None:
    """A drained group that is still given a job hands it back as it was."""
    process = chain.denoise()
    await process.drain()
    work = await chain.start()
    await process.handle(work, Pulse())
    record = await chain.record(work.job)
    assert (State.QUEUED, 0.0, None) == (record.state, record.result.actual_gpu_s, record.times.first_step)
