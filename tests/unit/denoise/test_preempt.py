"""Preempt: the group is free at the next step, nothing that was bought is lost, and the job waits its turn."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

from records import NOW, queued_record
from unit.denoise.chain import PREPARATION, STEPS, Chain, GatedStore, compute_latents, until
from vitascope.adapters.memory import MemoryObjectStore
from vitascope.contracts.events import Control
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.flow import State
from vitascope.contracts.jobs import JobRecord, ObjectRef
from vitascope.contracts.objects import latents_key
from vitascope.contracts.pools import GroupState
from vitascope.contracts.transitions import StaleAttempt
from vitascope.denoise.handler import PREEMPT_REST_S
from vitascope.runtime.advance import advance
from vitascope.runtime.ports import Stamped
from vitascope.runtime.stage import Pulse
from vitascope_operator.scheduling.core import Dispatch, plan
from vitascope_operator.scheduling.view import FleetView


@pytest.mark.parametrize("step", range(1, STEPS))
async def test_preempted_job_goes_on_later(chain: Chain, step: int) -> None:
    """Each step is run once, the record says what happened, and the latents equal an uninterrupted run's."""
    work = await chain.start()
    chain.denoiser.points.acts[step] = lambda: chain.preempt(work.job)
    await chain.denoise().handle(work, Pulse())
    record = await chain.record(work.job)
    assert (State.QUEUED, "preempted", step) == (record.state, record.run.reason, record.run.step)
    assert (False, 1, 0) == (record.run.preempt_requested, record.run.preemptions, record.run.failures)
    assert record.run.not_before == chain.clock.now() + timedelta(seconds=PREEMPT_REST_S)
    assert chain.keys() == [f"checkpoints/1/{step:06d}.safetensors"]
    assert (GroupState.IDLE, None, ()) == (chain.group.row.state, chain.group.row.job, chain.group.row.finishing)
    await chain.denoise().handle(await chain.dispatch(work.job), Pulse())
    assert chain.denoiser.ran == list(range(1, STEPS + 1))
    assert await chain.store.get(latents_key(record, 2)) == compute_latents(seed=7)
    assert chain.keys() == ["latents/2/latents.safetensors"]


async def test_preempt_at_the_last_step_finishes(chain: Chain) -> None:
    """Nothing is left to give up: the latents are handed on, and the request is forgotten."""
    work = await chain.start()
    chain.denoiser.points.acts[STEPS] = lambda: chain.preempt(work.job)
    await chain.denoise().handle(work, Pulse())
    record = await chain.record(work.job)
    assert (State.DECODING, False, 0) == (record.state, record.run.preempt_requested, record.run.preemptions)


async def test_preempt_after_the_last_step_finishes(pool: ThreadPoolExecutor, tmp_path: Path) -> None:
    """While the latents are uploaded the group is free already."""
    store = GatedStore("latents/")
    chain = Chain(pool, tmp_path, store)
    work = await chain.start()
    running = asyncio.create_task(chain.denoise().handle(work, Pulse()), name="run")
    await until(lambda: store.under_way > 0)
    await chain.preempt(work.job)
    store.gate.set()
    await running
    record = await chain.record(work.job)
    assert (State.DECODING, False) == (record.state, record.run.preempt_requested)


@pytest.mark.parametrize("moment", ["before it begins", "in preparation"])
async def test_preempt_before_the_first_step_waits_for_one(chain: Chain, moment: str) -> None:
    """A job that is given up always has moved."""
    work = await chain.start()
    if moment == "in preparation":
        chain.denoiser.points.acts[PREPARATION] = lambda: chain.preempt(work.job)
    else:
        await chain.preempt(work.job)
    await chain.denoise().handle(work, Pulse())
    record = await chain.record(work.job)
    assert (State.QUEUED, 1, [1]) == (record.state, record.run.step, chain.denoiser.ran)


async def test_job_that_is_preempted_each_time_comes_to_its_end(chain: Chain) -> None:
    """As many dispatches as it has steps at most, and no step twice."""
    work = await chain.start()
    await chain.preempt(work.job)
    await chain.denoise().handle(work, Pulse())
    for _ in range(STEPS - 1):
        work = await chain.dispatch(work.job)
        await chain.preempt(work.job)
        await chain.denoise().handle(work, Pulse())
    record = await chain.record(work.job)
    assert (State.DECODING, STEPS, STEPS - 1) == (record.state, record.run.attempt, record.run.preemptions)
    assert chain.denoiser.ran == list(range(1, STEPS + 1))
    assert await chain.store.get(latents_key(record, STEPS)) == compute_latents(seed=7)


async def test_group_is_free_while_the_checkpoint_is_uploaded(pool: ThreadPoolExecutor, tmp_path: Path) -> None:
    """Another job is denoised to its end before the preempted one is back in the queue."""
    store = GatedStore("checkpoints/")
    chain = Chain(pool, tmp_path, store)
    handler = chain.denoise(checkpoint_every=STEPS)
    loser, winner = await chain.start(seed=1), await chain.start(seed=2)
    chain.denoiser.points.acts[3] = lambda: chain.preempt(loser.job)
    running = asyncio.create_task(handler.handle(loser, Pulse()), name="loser")
    await until(lambda: store.under_way > 0)
    row = chain.group.row
    assert (GroupState.IDLE, None, (loser.job,)) == (row.state, row.job, row.finishing)
    chain.denoiser.points.acts.clear()
    await handler.handle(winner, Pulse())
    assert [State.RUNNING, State.DECODING] == [(await chain.record(work.job)).state for work in (loser, winner)]
    store.gate.set()
    await running
    record = await chain.record(loser.job)
    assert (State.QUEUED, 3, ()) == (record.state, record.run.step, chain.group.row.finishing)


async def test_free_group_goes_to_the_job_that_waits(chain: Chain) -> None:
    """The preempted job is older, and still does not take its group back before its rest is over."""
    work = await chain.start()
    chain.denoiser.points.acts[2] = lambda: chain.preempt(work.job)
    await chain.denoise().handle(work, Pulse())
    waiting = queued_record(NOW + timedelta(seconds=1))
    preempted = await chain.record(work.job)
    assert preempted.id < waiting.id
    view = FleetView(group_lease_s=3600.0, since=NOW)
    for revision, record in enumerate((preempted, waiting)):
        view.note_job(Stamped(record, revision), NOW)
    view.note_group(chain.group.row, NOW)
    assert (Dispatch(waiting.id, "default", "g0"),) == plan(view.snapshot(chain.clock.now()))
    rested = chain.clock.now() + timedelta(seconds=PREEMPT_REST_S)
    assert (Dispatch(preempted.id, "default", "g0"),) == plan(view.snapshot(rested))


async def test_control_message_makes_it_look_at_once(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the ledger's feed silent, the shortcut alone stops the run."""
    silent = chain.ledger.watch("vj_00000000000000000000000000")
    monkeypatch.setattr(chain.ledger, "watch", lambda _job: silent)
    work = await chain.start()

    async def preempt_and_tell() -> None:
        await chain.preempt(work.job)
        await chain.bus.send_control("g0", Control(job=work.job, attempt=1))

    chain.denoiser.points.acts[2] = preempt_and_tell
    await chain.denoise().handle(work, Pulse())
    assert chain.denoiser.ran == [1, 2]


class UnsteadyStore(MemoryObjectStore):
    """Away for the first puts of checkpoints."""

    outages = 3

    async def put(self, key: str, content: bytes | bytearray | memoryview, content_type: str) -> ObjectRef:
        if key.startswith("checkpoints/") and self.outages:
            self.outages -= 1
            raise VitascopeError(FailureCode.STORE_UNAVAILABLE)
        return await super().put(key, content, content_type)


async def test_outage_costs_no_step(pool: ThreadPoolExecutor, tmp_path: Path) -> None:
    """The state waits in memory until the store is back."""
    chain = Chain(pool, tmp_path, UnsteadyStore())
    work = await chain.start()
    chain.denoiser.points.acts[3] = lambda: chain.preempt(work.job)
    await chain.denoise(checkpoint_every=STEPS).handle(work, Pulse())
    record = await chain.record(work.job)
    assert (State.QUEUED, 3) == (record.state, record.run.step)


async def test_lasting_outage_costs_the_steps_since_the_checkpoint(chain: Chain) -> None:
    """The job goes back with what is safe, and the record says that there was more."""
    work = await chain.start()

    async def preempt_in_an_outage() -> None:
        chain.store.is_away = True
        await chain.preempt(work.job)

    chain.denoiser.points.acts[3] = preempt_in_an_outage
    await chain.denoise().handle(work, Pulse())
    record = await chain.record(work.job)
    assert (State.QUEUED, 2, 1) == (record.state, record.run.step, record.run.preemptions)
    assert "could not be saved" in str(record.run.reason)


@pytest.mark.parametrize(
    ("overtake", "state"),
    [
        pytest.param(Chain.cancel, State.CANCELLED, id="cancelled"),
        pytest.param(Chain.requeue, State.QUEUED, id="group lost"),
        pytest.param(Chain.lose_group, State.RUNNING, id="another attempt"),
    ],
)
async def test_overtaken_while_the_checkpoint_is_uploaded(
    pool: ThreadPoolExecutor, tmp_path: Path, overtake: Callable[[Chain, str], Awaitable[None]], state: State
) -> None:
    """The compare-and-set decides: the record stays as the others made it, and the upload is taken away."""
    store = GatedStore("checkpoints/")
    chain = Chain(pool, tmp_path, store)
    work = await chain.start()
    chain.denoiser.points.acts[3] = lambda: chain.preempt(work.job)
    running = asyncio.create_task(chain.denoise(checkpoint_every=STEPS).handle(work, Pulse()), name="run")
    await until(lambda: store.under_way > 0)
    await overtake(chain, work.job)
    store.gate.set()
    with pytest.raises(StaleAttempt):
        await running
    record = await chain.record(work.job)
    assert (state, 0, []) == (record.state, record.run.preemptions, chain.keys())


async def test_finished_by_a_copy_while_the_checkpoint_is_uploaded(
    pool: ThreadPoolExecutor, other_pool: ThreadPoolExecutor, tmp_path: Path
) -> None:
    """An event that came twice was worked on twice: the run that ended first counts, the other leaves nothing."""
    store = GatedStore("checkpoints/")
    chain = Chain(pool, tmp_path, store)
    work = await chain.start()
    chain.denoiser.points.acts[3] = lambda: chain.preempt(work.job)
    running = asyncio.create_task(chain.denoise(checkpoint_every=STEPS).handle(work, Pulse()), name="run")
    await until(lambda: store.under_way > 0)
    copy = chain.machine("g0", other_pool)
    await advance(chain.ledger, work.job, _forget_request)
    await chain.denoise(checkpoint_every=STEPS, on=copy).handle(work, Pulse())
    store.gate.set()
    with pytest.raises(StaleAttempt):
        await running
    assert State.DECODING is (await chain.record(work.job)).state
    assert ["latents/1/latents.safetensors"] == chain.keys()


def _forget_request(record: JobRecord) -> JobRecord:
    return record.model_copy(update={"run": record.run.model_copy(update={"preempt_requested": False})})


async def test_drain_after_a_preempt_leaves_it_a_preempt(pool: ThreadPoolExecutor, tmp_path: Path) -> None:
    """What stopped the run is what the record says."""
    store = GatedStore("checkpoints/")
    chain = Chain(pool, tmp_path, store)
    work = await chain.start()
    handler = chain.denoise(checkpoint_every=STEPS)
    chain.denoiser.points.acts[3] = lambda: chain.preempt(work.job)
    running = asyncio.create_task(handler.handle(work, Pulse()), name="run")
    await until(lambda: store.under_way > 0)
    await handler.drain()
    store.gate.set()
    await running
    record = await chain.record(work.job)
    assert ("preempted", 1, 3) == (record.run.reason, record.run.preemptions, record.run.step)


async def test_drain_outranks_preempt(chain: Chain) -> None:
    """A group that leaves is no group that was given up for another job: no rest, no count."""
    work = await chain.start()
    handler = chain.denoise()

    async def both() -> None:
        await chain.preempt(work.job)
        await handler.drain()

    chain.denoiser.points.acts[3] = both
    await handler.handle(work, Pulse())
    record = await chain.record(work.job)
    assert ("drained", 0, None) == (record.run.reason, record.run.preemptions, record.run.not_before)


async def test_answer_that_was_lost_counts_once(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that went back to the queue though the answer did not come is not changed again."""
    work = await chain.start()
    chain.lose_answer(monkeypatch, lambda changed: changed.state is State.QUEUED)
    chain.denoiser.points.acts[3] = lambda: chain.preempt(work.job)
    with pytest.raises(StaleAttempt):
        await chain.denoise().handle(work, Pulse())
    record = await chain.record(work.job)
    assert (State.QUEUED, 3, 1) == (record.state, record.run.step, record.run.preemptions)
    assert chain.keys() == ["checkpoints/1/000003.safetensors"]
