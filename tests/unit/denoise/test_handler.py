"""The denoise handler at work: steps, cancel, drain, checkpoints, the next job."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from unit.denoise.chain import STEPS, Chain, GatedStore, compute_latents, settled, until
from vitascope.contracts.events import Control
from vitascope.contracts.flow import Stage, State
from vitascope.contracts.jobs import Reference, ReferenceRole
from vitascope.contracts.objects import latents_key
from vitascope.contracts.pools import GroupState
from vitascope.contracts.transitions import StaleAttempt
from vitascope.runtime.stage import Pulse


async def test_latents_are_stored_recorded_and_handed_on(chain: Chain) -> None:
    """A finished job is decoding, its latents are in the store, decode has its event, no checkpoint is left."""
    work = await chain.start()
    await chain.denoise().handle(work, Pulse())
    record = await chain.record(work.job)
    assert record.state is State.DECODING
    assert record.run.latents is not None
    assert await chain.store.get(record.run.latents) == compute_latents(seed=7)
    assert record.result.engine == chain.denoiser.describe("tiny-wan")
    assert record.result.actual_gpu_s > 0
    assert await chain.has_work(work.job, Stage.DECODE)
    assert chain.keys() == ["latents/1/latents.safetensors"]
    assert chain.group.row.state is GroupState.IDLE
    assert set(chain.group.row.step_s) == {"64x64_9"}


async def test_references_reach_the_engine_in_their_order(chain: Chain) -> None:
    """Reference objects come as their bytes."""
    stored = [await chain.store.put(f"inputs/{name}", name.encode(), "image/png") for name in ("b", "a")]
    references = (Reference(role=ReferenceRole.IMAGE, object=ref, media_type="image/png") for ref in stored)
    work = await chain.start(references=tuple(references))
    await chain.denoise().handle(work, Pulse())
    assert list(chain.denoiser.references) == [b"b", b"a"]


@pytest.mark.parametrize("step", range(1, STEPS + 1))
async def test_cancel_stops_at_the_next_step(chain: Chain, step: int) -> None:
    """Whatever the step, no further one is run, nothing stays in the store, the group is free."""
    work = await chain.start()
    chain.denoiser.points.acts[step] = lambda: chain.cancel(work.job)
    with pytest.raises(StaleAttempt):
        await chain.denoise().handle(work, Pulse())
    assert chain.denoiser.ran == list(range(1, step + 1))
    assert chain.keys() == []
    assert (await chain.record(work.job)).state is State.CANCELLED
    assert not await chain.has_work(work.job, Stage.DECODE)
    assert chain.group.row.state is GroupState.IDLE
    assert chain.group.row.job is None


async def test_cancel_while_latents_are_uploaded(pool: ThreadPoolExecutor, tmp_path: Path) -> None:
    """The compare-and-set decides: the latents go, and decode gets no event."""
    store = GatedStore("latents/")
    chain = Chain(pool, tmp_path, store)
    work = await chain.start()
    running = asyncio.create_task(chain.denoise().handle(work, Pulse()), name="first")
    await until(lambda: store.under_way > 0)
    await chain.cancel(work.job)
    store.gate.set()
    with pytest.raises(StaleAttempt):
        await running
    assert chain.keys() == []
    assert not await chain.has_work(work.job, Stage.DECODE)


async def test_cancelled_job_is_cleaned_up_by_whoever_gets_its_event(chain: Chain) -> None:
    """An event of a cancelled job only removes what others left."""
    work = await chain.start()
    record = await chain.record(work.job)
    await chain.store.put(latents_key(record, 1), b"left", "x")
    await chain.cancel(work.job)
    with pytest.raises(StaleAttempt):
        await chain.denoise().handle(work, Pulse())
    assert chain.keys() == []
    assert chain.denoiser.ran == []


async def test_pause_between_steps_ends_with_a_cancel(chain: Chain) -> None:
    """A step that lasts an hour by setting does not make a cancel last an hour."""
    work = await chain.start()
    chain.denoiser.points.acts[1] = lambda: chain.cancel(work.job)
    with pytest.raises(StaleAttempt):
        await chain.denoise(min_step_s=3600).handle(work, Pulse())
    assert chain.denoiser.ran == [1]


async def test_control_message_makes_it_look_at_once(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the ledger's feed silent, the shortcut alone stops the run."""
    silent = chain.ledger.watch("vj_00000000000000000000000000")
    monkeypatch.setattr(chain.ledger, "watch", lambda _job: silent)
    work = await chain.start()

    async def cancel_and_tell() -> None:
        await chain.cancel(work.job)
        await chain.bus.send_control("g0", Control(job=work.job, attempt=1))

    chain.denoiser.points.acts[2] = cancel_and_tell
    with pytest.raises(StaleAttempt):
        await chain.denoise().handle(work, Pulse())
    assert chain.denoiser.ran == [1, 2]


@pytest.mark.parametrize("step", range(1, STEPS + 1))
async def test_stale_attempt_changes_nothing(chain: Chain, step: int) -> None:
    """After the group was thought lost, the old run stops, and all that the new attempt needs is still there."""
    work = await chain.start()
    chain.denoiser.points.acts[step] = lambda: chain.lose_group(work.job)
    with pytest.raises(StaleAttempt):
        await chain.denoise().handle(work, Pulse())
    record = await chain.record(work.job)
    assert (record.state, record.run.attempt) == (State.RUNNING, 2)
    assert chain.keys("latents") == []
    referenced = [record.run.checkpoint.object.key] if record.run.checkpoint else []
    assert sorted(chain.objects()) == referenced
    chain.denoiser.points.acts.clear()
    await chain.run(chain.denoise(), work.job)
    assert await chain.store.get(latents_key(record, 2)) == compute_latents(seed=7)


async def test_old_event_after_a_new_attempt_is_refused(chain: Chain) -> None:
    """An event of attempt 1 that comes late runs no step and removes nothing of attempt 2."""
    work = await chain.start()
    await chain.lose_group(work.job)
    await chain.run(chain.denoise(), work.job)
    before = chain.objects()
    with pytest.raises(StaleAttempt):
        await chain.denoise().handle(work, Pulse())
    assert chain.objects() == before
    assert chain.denoiser.ran == list(range(1, STEPS + 1))


@pytest.mark.parametrize("step", range(1, STEPS))
async def test_drained_job_goes_on_elsewhere(chain: Chain, step: int) -> None:
    """Each step is run once, by the one process or the other, and the latents equal an uninterrupted run's."""
    work = await chain.start()
    first = chain.denoise()
    chain.denoiser.points.acts[step] = first.drain
    await first.handle(work, Pulse())
    record = await chain.record(work.job)
    assert (record.state, record.run.reason, record.run.step) == (State.QUEUED, "drained", step)
    assert chain.group.row.state is GroupState.DRAINING
    again = await chain.dispatch(work.job)
    await chain.denoise().handle(again, Pulse())
    assert chain.denoiser.ran == list(range(1, STEPS + 1))
    record = await chain.record(work.job)
    assert await chain.store.get(latents_key(record, 2)) == compute_latents(seed=7)
    assert chain.keys() == ["latents/2/latents.safetensors"]


async def test_drain_at_the_last_step_finishes(chain: Chain) -> None:
    """Nothing is left to hand back: the latents are handed on."""
    work = await chain.start()
    handler = chain.denoise()
    chain.denoiser.points.acts[STEPS] = handler.drain
    await handler.handle(work, Pulse())
    assert (await chain.record(work.job)).state is State.DECODING


async def test_drained_handler_takes_no_new_job(chain: Chain) -> None:
    """A job that is given to it all the same goes back without a step."""
    handler = chain.denoise()
    await handler.drain()
    work = await chain.start()
    await handler.handle(work, Pulse())
    assert (await chain.record(work.job)).state is State.QUEUED
    assert chain.denoiser.ran == []


async def test_drain_with_the_store_away_keeps_the_older_checkpoint(chain: Chain) -> None:
    """The job goes back with what is safe: one checkpoint interval at most is repeated."""
    work = await chain.start()
    handler = chain.denoise()

    async def drain_in_an_outage() -> None:
        chain.store.is_away = True
        await handler.drain()

    chain.denoiser.points.acts[3] = drain_in_an_outage
    await handler.handle(work, Pulse())
    chain.store.is_away = False
    record = await chain.record(work.job)
    assert (record.state, record.run.step) == (State.QUEUED, 2)
    chain.denoiser.points.acts.clear()
    await chain.denoise().handle(await chain.dispatch(work.job), Pulse())
    assert chain.denoiser.ran == [1, 2, 3, 3, 4, 5, 6]


async def test_only_the_newest_checkpoint_is_kept(chain: Chain) -> None:
    """Once a newer checkpoint is recorded, the older object is gone."""
    work = await chain.start()
    seen: list[tuple[int, list[str]]] = []

    async def look() -> None:
        seen.append(((await chain.record(work.job)).run.step, chain.keys("checkpoints")))

    chain.denoiser.points.acts |= {3: look, 5: look}
    await chain.denoise().handle(work, Pulse())
    assert seen == [(2, ["checkpoints/1/000002.safetensors"]), (4, ["checkpoints/1/000004.safetensors"])]


async def test_one_checkpoint_at_a_time_is_uploaded(pool: ThreadPoolExecutor, tmp_path: Path) -> None:
    """The sampler goes on beside an upload, and waits before a second one."""
    store = GatedStore("checkpoints/")
    chain = Chain(pool, tmp_path, store)
    work = await chain.start()
    open_at: dict[int, bool] = {}

    async def look(step: int) -> None:
        open_at[step] = store.gate.is_set()

    async def open_later() -> None:
        asyncio.get_running_loop().call_soon(lambda: opening.append(asyncio.create_task(release(), name="release")))

    async def release() -> None:
        await settled()
        await settled()
        store.gate.set()

    opening: list[asyncio.Task[None]] = []
    chain.denoiser.points.acts |= {3: lambda: look(3), 4: open_later, 5: lambda: look(5)}
    await chain.denoise().handle(work, Pulse())
    assert open_at == {3: False, 5: True}
    assert store.most == 1


async def test_sampler_takes_the_next_job_during_the_upload(pool: ThreadPoolExecutor, tmp_path: Path) -> None:
    """While the latents of one job are under way, the next one is sampled, and the group says so."""
    store = GatedStore("latents/")
    chain = Chain(pool, tmp_path, store)
    handler = chain.denoise()
    first, second = await chain.start(seed=1), await chain.start(seed=2)
    rows: list[tuple[GroupState, str | None, int]] = []

    async def look() -> None:
        rows.append((chain.group.row.state, chain.group.row.job, store.under_way))

    running = [asyncio.create_task(handler.handle(first, Pulse()), name="first")]
    await until(lambda: store.under_way > 0)
    assert (chain.group.row.state, chain.group.row.finishing) == (GroupState.IDLE, (first.job,))
    chain.denoiser.points.acts[1] = look
    running.append(asyncio.create_task(handler.handle(second, Pulse()), name="second"))
    await until(lambda: store.under_way > 1)
    store.gate.set()
    await asyncio.gather(*running)
    assert rows == [(GroupState.BUSY, second.job, 1)]
    assert (chain.group.row.state, chain.group.row.finishing) == (GroupState.IDLE, ())
    for work, seed in ((first, 1), (second, 2)):
        record = await chain.record(work.job)
        assert record.state is State.DECODING
        assert await store.get(latents_key(record, 1)) == compute_latents(seed)


async def test_sampler_takes_one_job_at_a_time(chain: Chain) -> None:
    """A second job that comes early waits, and the group's row is about the one that runs."""
    handler = chain.denoise()
    first, second = await chain.start(seed=1), await chain.start(seed=2)
    rows: list[tuple[GroupState, str | None]] = []

    async def look() -> None:
        if not rows:
            running.append(asyncio.create_task(handler.handle(second, Pulse()), name="second"))
            await settled()
        rows.append((chain.group.row.state, chain.group.row.job))

    running: list[asyncio.Task[None]] = []
    chain.denoiser.points.acts |= {2: look, 4: look}
    await handler.handle(first, Pulse())
    await running[0]
    assert rows == [(GroupState.BUSY, work.job) for work in (first, first, second, second)]
