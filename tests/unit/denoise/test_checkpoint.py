"""Checkpoints: beside the next step, whole or not there, and none without a record that points to it."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from records import NOW
from unit.denoise.chain import STEPS, Chain, GatedStore, compute_latents, settled, until
from vitascope.contracts import transitions
from vitascope.contracts.failures import Failure, FailureCode, VitascopeError
from vitascope.contracts.flow import State
from vitascope.contracts.jobs import JobRecord
from vitascope.contracts.objects import latents_key
from vitascope.contracts.transitions import StaleAttempt
from vitascope.runtime.advance import advance
from vitascope.runtime.ports import Stamped
from vitascope.runtime.stage import Pulse

CHECKPOINTS = "checkpoints/"


async def _fail(chain: Chain, job: str) -> None:
    """What a watchdog, or one loss too many, does."""
    failure = Failure.of(FailureCode.GROUP_LOST)
    await advance(chain.ledger, job, lambda record: transitions.fail(record, 1, failure, NOW))


async def test_crash_during_an_upload_leaves_the_older_one(
    pool: ThreadPoolExecutor, other_pool: ThreadPoolExecutor, tmp_path: Path
) -> None:
    """While step 4 is under way the record points to step 2, which is whole: another group goes on from it."""
    store = GatedStore(CHECKPOINTS, held_after=1)
    chain = Chain(pool, tmp_path, store)
    work = await chain.start()
    running = asyncio.create_task(chain.denoise().handle(work, Pulse()), name="crashes")
    await until(lambda: store.under_way > 0)
    assert (2, ["checkpoints/1/000002.safetensors"]) == ((await chain.record(work.job)).run.step, chain.keys())
    running.cancel()  # nothing after this moment reaches record or store, as if the process had been killed
    await chain.requeue(work.job)
    elsewhere = chain.machine("g1", other_pool)
    store.prefix = "nothing"
    await chain.denoise(on=elsewhere).handle(await chain.dispatch(work.job, "g1"), Pulse())
    assert [3, 4, 5, 6] == elsewhere.denoiser.ran
    assert await store.get(latents_key(await chain.record(work.job), 2)) == compute_latents(seed=7)
    store.gate.set()
    await asyncio.wait({running})
    assert ["latents/2/latents.safetensors"] == chain.keys()


async def test_sampler_waits_for_an_upload_only_before_the_next(pool: ThreadPoolExecutor, tmp_path: Path) -> None:
    """Steps go on beside an upload that does not end, up to the step after which the next one is due."""
    store = GatedStore(CHECKPOINTS)
    chain = Chain(pool, tmp_path, store)
    work = await chain.start(num_inference_steps=9)
    running = asyncio.create_task(chain.denoise(checkpoint_every=3).handle(work, Pulse()), name="run")
    await until(lambda: len(chain.denoiser.ran) == 6)
    for _ in range(20):
        await settled()
    assert ([1, 2, 3, 4, 5, 6], 1) == (chain.denoiser.ran, store.under_way)
    store.gate.set()
    await running
    assert (list(range(1, 10)), 1) == (chain.denoiser.ran, store.most)


@pytest.mark.parametrize(
    ("overtake", "state"),
    [
        pytest.param(Chain.requeue, State.QUEUED, id="group lost"),
        pytest.param(Chain.lose_group, State.RUNNING, id="another attempt"),
        pytest.param(_fail, State.FAILED, id="failed"),
        pytest.param(Chain.cancel, State.CANCELLED, id="cancelled"),
    ],
)
async def test_checkpoint_that_the_record_refuses_is_removed(
    pool: ThreadPoolExecutor, tmp_path: Path, overtake: Callable[[Chain, str], Awaitable[None]], state: State
) -> None:
    """Stored, but no longer wanted: what the record points to stays, the upload does not, and no more steps run."""
    store = GatedStore(CHECKPOINTS, held_after=1)
    chain = Chain(pool, tmp_path, store)
    work = await chain.start()
    running = asyncio.create_task(chain.denoise().handle(work, Pulse()), name="run")
    await until(lambda: store.under_way > 0 and len(chain.denoiser.ran) == STEPS)
    before = await chain.record(work.job)
    await overtake(chain, work.job)
    store.gate.set()
    with pytest.raises(StaleAttempt):
        await running
    record = await chain.record(work.job)
    assert (state, before.run.checkpoint) == (record.state, record.run.checkpoint)
    assert ([] if state is State.CANCELLED else ["checkpoints/1/000002.safetensors"]) == chain.keys()


async def test_checkpoint_that_could_not_be_recorded_goes_with_the_next(
    chain: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger is away for the compare-and-set of step 2: its object is gone once step 4 is recorded."""
    work = await chain.start()
    replace, outages = chain.ledger.replace, [1]

    async def replace_later(current: Stamped, changed: JobRecord) -> Stamped:
        if changed.run.checkpoint is not None and outages:
            outages.pop()
            raise VitascopeError(FailureCode.BUS_UNAVAILABLE)
        return await replace(current, changed)

    seen: list[tuple[int, list[str]]] = []

    async def look() -> None:
        seen.append(((await chain.record(work.job)).run.step, chain.keys()))

    monkeypatch.setattr(chain.ledger, "replace", replace_later)
    chain.denoiser.points.acts |= {4: look, 5: look}
    await chain.denoise().handle(work, Pulse())
    assert [(0, ["checkpoints/1/000002.safetensors"]), (4, ["checkpoints/1/000004.safetensors"])] == seen


async def test_checkpoint_whose_record_changed_unseen_stays(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    """The compare-and-set took effect and its answer was lost: what the record points to is there."""
    work = await chain.start()
    chain.lose_answer(monkeypatch, lambda changed: changed.run.checkpoint is not None)
    chain.denoiser.points.acts[3] = lambda: chain.requeue(work.job)
    with pytest.raises(StaleAttempt):
        await chain.denoise().handle(work, Pulse())
    record = await chain.record(work.job)
    assert record.run.checkpoint is not None
    assert (2, [record.run.checkpoint.object.key]) == (record.run.step, list(chain.objects()))


async def test_checkpoint_of_another_engine_is_replaced_by_the_first_of_this(chain: Chain) -> None:
    """By rule the job starts over; the other engine's object goes as soon as there is a newer one."""
    work = await chain.start()
    first = chain.denoise()
    chain.denoiser.points.acts[5] = first.drain
    await first.handle(work, Pulse())
    chain.denoiser.engine = chain.denoiser.engine.model_copy(update={"sampler": "Euler"})
    seen: list[tuple[int, list[str]]] = []

    async def look() -> None:
        seen.append(((await chain.record(work.job)).run.step, chain.keys()))

    chain.denoiser.points.acts = {1: look, 3: look}
    await chain.denoise().handle(await chain.dispatch(work.job), Pulse())
    assert [(0, ["checkpoints/1/000005.safetensors"]), (2, ["checkpoints/2/000002.safetensors"])] == seen
