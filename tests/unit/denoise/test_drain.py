"""Drain at every moment: each job goes on elsewhere, and no step is made twice."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from unit.denoise.chain import PREPARATION, STEPS, Chain, GatedStore, Machine, compute_latents, settled, until
from vitascope.contracts.flow import Stage, State
from vitascope.contracts.pools import GroupState
from vitascope.runtime.stage import Pulse

ALL_STEPS = list(range(1, STEPS + 1))


async def finish_elsewhere(chain: Chain, job: str, machine: Machine) -> list[int]:
    """Have another group bring the job to the end of denoise, if it is not there; the steps that took."""
    record = await chain.record(job)
    if record.state is State.QUEUED:
        assert record.run.not_before is None
        await chain.denoise(on=machine).handle(await chain.dispatch(job, machine.group.row.group), Pulse())
        record = await chain.record(job)
    assert State.DECODING is record.state
    assert record.run.latents is not None
    assert compute_latents(seed=7) == await chain.store.get(record.run.latents)
    return machine.denoiser.ran


async def test_drained_while_text_is_encoded(chain: Chain, other_pool: ThreadPoolExecutor) -> None:
    """The first step is made and kept."""
    work = await chain.start()
    handler = chain.denoise()
    chain.denoiser.points.acts[PREPARATION] = handler.drain
    await handler.handle(work, Pulse())
    ran = await finish_elsewhere(chain, work.job, chain.machine("g1", other_pool))
    assert (ALL_STEPS[:1], ALL_STEPS[1:]) == (chain.denoiser.ran, ran)


async def test_drained_while_it_waits_for_the_sampler(chain: Chain, other_pool: ThreadPoolExecutor) -> None:
    """A job that was dispatched and had not begun goes back as it was, and counts as no failure."""
    handler = chain.denoise()
    first, second = await chain.start(), await chain.start()
    waiting: list[asyncio.Task[None]] = []

    async def bring_another_and_drain() -> None:
        waiting.append(asyncio.create_task(handler.handle(second, Pulse()), name="second"))
        await settled()
        await handler.drain()

    chain.denoiser.points.acts[3] = bring_another_and_drain
    await handler.handle(first, Pulse())
    await waiting[0]
    record = await chain.record(second.job)
    assert (State.QUEUED, "drained", 0, 0.0) == (
        record.state,
        record.run.reason,
        record.run.failures,
        record.result.actual_gpu_s,
    )
    elsewhere = chain.machine("g1", other_pool)
    assert ALL_STEPS[3:] == await finish_elsewhere(chain, first.job, elsewhere)
    elsewhere.denoiser.ran.clear()
    assert ALL_STEPS == await finish_elsewhere(chain, second.job, elsewhere)


async def test_drained_while_latents_are_handed_on(pool: ThreadPoolExecutor, tmp_path: Path) -> None:
    """What is finished is handed on, not given up."""
    store = GatedStore("latents/")
    chain = Chain(pool, tmp_path, store)
    work, handler = await chain.start(), chain.denoise()
    running = asyncio.create_task(handler.handle(work, Pulse()), name="run")
    await until(lambda: store.under_way > 0)
    await handler.drain()
    assert (GroupState.DRAINING, (work.job,)) == (chain.group.row.state, chain.group.row.finishing)
    store.gate.set()
    await running
    assert State.DECODING is (await chain.record(work.job)).state
    assert await chain.has_work(work.job, Stage.DECODE)


async def test_drained_while_a_checkpoint_is_uploaded(
    pool: ThreadPoolExecutor, other_pool: ThreadPoolExecutor, tmp_path: Path
) -> None:
    """The upload ends, the newer state follows it, and only that is left."""
    store = GatedStore("checkpoints/")
    chain = Chain(pool, tmp_path, store)
    work, handler = await chain.start(), chain.denoise()

    async def drain_during_the_upload() -> None:
        assert 1 == store.under_way
        await handler.drain()

    chain.denoiser.points.acts[3] = drain_during_the_upload
    running = asyncio.create_task(handler.handle(work, Pulse()), name="run")
    await until(lambda: chain.group.row.job is None and chain.denoiser.ran == ALL_STEPS[:3])
    store.gate.set()
    await running
    assert ["checkpoints/1/000003.safetensors"] == chain.keys()
    assert ALL_STEPS[3:] == await finish_elsewhere(chain, work.job, chain.machine("g1", other_pool))


async def test_drained_with_two_jobs(pool: ThreadPoolExecutor, other_pool: ThreadPoolExecutor, tmp_path: Path) -> None:
    """The one is handed on, the other goes back with its newest step."""
    store = GatedStore("latents/")
    chain = Chain(pool, tmp_path, store)
    handler = chain.denoise()
    first, second = await chain.start(), await chain.start()
    running = [asyncio.create_task(handler.handle(first, Pulse()), name="first")]
    await until(lambda: store.under_way > 0)
    chain.denoiser.ran.clear()
    chain.denoiser.points.acts[3] = handler.drain
    running.append(asyncio.create_task(handler.handle(second, Pulse()), name="second"))
    await until(running[1].done)
    store.gate.set()
    await asyncio.gather(*running)
    assert [State.DECODING, State.QUEUED] == [(await chain.record(work.job)).state for work in (first, second)]
    assert ALL_STEPS[:3] == chain.denoiser.ran
    assert ALL_STEPS[3:] == await finish_elsewhere(chain, second.job, chain.machine("g1", other_pool))


@pytest.mark.parametrize(
    "is_late", [pytest.param(False, id="drained"), pytest.param(True, id="preempted, then drained")]
)
async def test_store_that_does_not_answer_costs_the_newest_steps_only(
    pool: ThreadPoolExecutor, other_pool: ThreadPoolExecutor, tmp_path: Path, *, is_late: bool
) -> None:
    """The job is back in the queue with its older checkpoint before the grace time is over; no group was lost."""
    store = GatedStore("checkpoints/", held_after=1)
    chain = Chain(pool, tmp_path, store)
    work, handler = await chain.start(), chain.denoise(grace_s=0.001)
    chain.denoiser.points.acts[3] = (lambda: chain.preempt(work.job)) if is_late else handler.drain
    running = asyncio.create_task(handler.handle(work, Pulse()), name="run")
    if is_late:
        await until(lambda: store.under_way > 0)
        await handler.drain()
    await running
    record = await chain.record(work.job)
    assert (State.QUEUED, 2, 0) == (record.state, record.run.step, record.run.failures)
    assert "could not be saved" in str(record.run.reason)
    store.prefix = "nothing"
    chain.clock.advance(60)
    await chain.denoise(on=(elsewhere := chain.machine("g1", other_pool))).handle(
        await chain.dispatch(work.job, "g1"), Pulse()
    )
    assert ALL_STEPS[2:] == elsewhere.denoiser.ran
