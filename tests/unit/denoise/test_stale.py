"""A process that was stopped for longer than its lease and wakes: it can change nothing and shows nothing."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from unit.denoise.chain import STEPS, Chain, GatedStore, compute_latents, progress_of, until
from vitascope.contracts.events import Progress
from vitascope.contracts.flow import Stage, State
from vitascope.contracts.objects import latents_key
from vitascope.contracts.subjects import progress_subject
from vitascope.contracts.transitions import StaleAttempt
from vitascope.ingress.progress import ProgressIndex
from vitascope.runtime import progress
from vitascope.runtime.stage import Pulse


@pytest.mark.parametrize("made", ["latents/", "checkpoints/"])
async def test_woken_process_overwrites_nothing(
    pool: ThreadPoolExecutor, other_pool: ThreadPoolExecutor, tmp_path: Path, made: str
) -> None:
    """It stopped while it stored something; meanwhile another group brought the job to its end."""
    store = GatedStore(made)
    chain = Chain(pool, tmp_path, store)
    work = await chain.start()
    stopped = asyncio.create_task(chain.denoise().handle(work, Pulse()), name="stopped")
    await until(lambda: store.under_way > 0)
    await chain.requeue(work.job)
    store.prefix = "nothing"
    elsewhere = chain.machine("g1", other_pool)
    await chain.denoise(on=elsewhere).handle(await chain.dispatch(work.job, "g1"), Pulse())
    before, objects = await chain.record(work.job), chain.objects()
    store.gate.set()
    with pytest.raises(StaleAttempt):
        await stopped
    assert (before, objects) == (await chain.record(work.job), chain.objects())
    assert await store.get(latents_key(before, 2)) == compute_latents(seed=7)


async def test_woken_process_leaves_nothing_though_nobody_took_over_yet(
    pool: ThreadPoolExecutor, tmp_path: Path
) -> None:
    """The job waits in the queue, with no new attempt to tell the old one by: the latents are refused and removed."""
    store = GatedStore("latents/")
    chain = Chain(pool, tmp_path, store)
    work = await chain.start()
    stopped = asyncio.create_task(chain.denoise().handle(work, Pulse()), name="stopped")
    await until(lambda: store.under_way > 0)
    await chain.requeue(work.job)
    store.gate.set()
    with pytest.raises(StaleAttempt):
        await stopped
    record = await chain.record(work.job)
    assert (State.QUEUED, 4, ["checkpoints/1/000004.safetensors"]) == (record.state, record.run.step, chain.keys())
    assert not await chain.has_work(work.job, Stage.DECODE)


async def test_woken_process_announces_nothing(
    pool: ThreadPoolExecutor, other_pool: ThreadPoolExecutor, tmp_path: Path
) -> None:
    """Decode was asked for by the attempt that counts, and has done its work: it is not asked again."""
    store = GatedStore("latents/")
    chain = Chain(pool, tmp_path, store)
    work = await chain.start()
    stopped = asyncio.create_task(chain.denoise().handle(work, Pulse()), name="stopped")
    await until(lambda: store.under_way > 0)
    await chain.requeue(work.job)
    store.prefix = "nothing"
    await chain.denoise(on=chain.machine("g1", other_pool)).handle(await chain.dispatch(work.job, "g1"), Pulse())
    async with chain.bus.consume(Stage.DECODE, "default") as deliveries:
        delivery = await anext(deliveries)
        assert {"attempt": 2} == {"attempt": (await chain.work_for(work.job, Stage.DECODE)).attempt}
        await delivery.ack()
    store.gate.set()
    with pytest.raises(StaleAttempt):
        await stopped
    assert not await chain.has_work(work.job, Stage.DECODE)


async def test_progress_of_an_old_attempt_is_not_shown(
    chain: Chain, other_pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old process goes on sending until it learns that its attempt is over; who asks gets the new one's."""
    monkeypatch.setattr(progress, "INTERVAL_S", 0.0)
    work = await chain.start()
    index, elsewhere = ProgressIndex(), chain.machine("g1", other_pool)

    async def go_on_elsewhere() -> None:
        await chain.requeue(work.job)
        await chain.denoise(on=elsewhere).handle(await chain.dispatch(work.job, "g1"), Pulse())

    chain.denoiser.points.acts[3] = go_on_elsewhere
    async with progress_of(chain, progress_subject("default", work.job)) as messages:
        with pytest.raises(StaleAttempt):
            await chain.denoise().handle(work, Pulse())
    sent = [Progress.model_validate_json(message) for message in messages]
    assert {1, 2} == {message.attempt for message in sent}
    assert sent[-1].attempt == 1
    for message in sent:
        index.apply(message)
    shown = index.find(work.job, 2, Stage.DENOISE)
    assert shown is not None
    assert (2, STEPS) == (shown.attempt, shown.step)
    assert index.find(work.job, 1, Stage.DENOISE) is None
