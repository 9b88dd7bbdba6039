"""The denoise handler when something fails: crashes, spoilt checkpoints, outages, lost answers."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from unit.denoise.chain import STEPS, Chain, compute_latents, progress_of, settled
from vitascope.adapters.memory import MemoryObjectStore
from vitascope.contracts.events import CloudEvent, Progress
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.flow import Stage, State
from vitascope.contracts.jobs import ObjectRef
from vitascope.contracts.objects import latents_key
from vitascope.contracts.pools import GroupState
from vitascope.contracts.subjects import progress_subject
from vitascope.runtime.stage import Pulse


async def test_crash_between_record_and_event_is_mended(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    """A redelivered event of finished work publishes the next event, and runs no step."""
    work = await chain.start()

    async def crash(_subject: str, _event: CloudEvent) -> None:
        raise RuntimeError("killed here")

    with monkeypatch.context() as patched:
        patched.setattr(chain.bus, "publish_work", crash)
        with pytest.raises(RuntimeError, match="killed here"):
            await chain.denoise().handle(work, Pulse())
    assert not await chain.has_work(work.job, Stage.DECODE)
    await chain.denoise().handle(work, Pulse())
    assert await chain.has_work(work.job, Stage.DECODE)
    assert chain.denoiser.ran == list(range(1, STEPS + 1))


async def test_crash_of_the_engine_resumes_from_the_checkpoint(chain: Chain) -> None:
    """A redelivered event of the same attempt goes on from what is safe."""
    work = await chain.start()
    chain.denoiser.fails_at[5] = RuntimeError("kernel launch failed")
    with pytest.raises(RuntimeError, match="kernel launch failed"):
        await chain.denoise().handle(work, Pulse())
    assert chain.group.row.state is GroupState.IDLE
    await chain.denoise().handle(work, Pulse())
    assert chain.denoiser.ran == [1, 2, 3, 4, 5, 5, 6]


async def _lose(chain: Chain, key: str) -> None:
    del chain.store.objects[key]


async def _damage(chain: Chain, key: str) -> None:
    chain.store.objects[key] = b"{}"


async def _change_engine(chain: Chain, _key: str) -> None:
    chain.denoiser.engine = chain.denoiser.engine.model_copy(update={"dtype": "bfloat16"})


async def _refuse(chain: Chain, _key: str) -> None:
    chain.denoiser.is_picky = True


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        pytest.param(_lose, "object_missing", id="missing"),
        pytest.param(_damage, "object_corrupt", id="corrupt"),
        pytest.param(_change_engine, "another engine", id="other engine"),
        pytest.param(_refuse, "made by others", id="refused by the engine"),
    ],
)
async def test_unusable_checkpoint_starts_from_the_first_step(chain: Chain, spoil: object, reason: str) -> None:
    """The record says why steps are repeated, and the result is right all the same."""
    work = await chain.start()
    first = chain.denoise()
    chain.denoiser.points.acts[3] = first.drain
    await first.handle(work, Pulse())
    checkpoint = (await chain.record(work.job)).run.checkpoint
    assert checkpoint is not None
    assert callable(spoil)
    await spoil(chain, checkpoint.object.key)
    chain.denoiser.ran.clear()
    reasons: list[str | None] = []

    async def look() -> None:
        reasons.append((await chain.record(work.job)).run.reason)

    chain.denoiser.points.acts = {1: look}
    await chain.denoise().handle(await chain.dispatch(work.job), Pulse())
    assert chain.denoiser.ran == list(range(1, STEPS + 1))
    assert reason in str(reasons[0])
    record = await chain.record(work.job)
    assert await chain.store.get(latents_key(record, 2)) == compute_latents(seed=7)
    assert chain.keys() == ["latents/2/latents.safetensors"]


class UnsteadyStore(MemoryObjectStore):
    """Away for the first puts of latents, the first of which was stored all the same."""

    outages = 2

    async def put(self, key: str, content: bytes | bytearray | memoryview, content_type: str) -> ObjectRef:
        reference = await super().put(key, content, content_type)
        if key.startswith("latents/") and self.outages:
            self.outages -= 1
            raise VitascopeError(FailureCode.STORE_UNAVAILABLE)
        return reference


async def test_outage_at_the_end_costs_no_step(pool: ThreadPoolExecutor, tmp_path: Path) -> None:
    """The latents wait in memory until the store is back."""
    chain = Chain(pool, tmp_path, UnsteadyStore())
    work = await chain.start()
    await chain.denoise().handle(work, Pulse())
    assert (await chain.record(work.job)).state is State.DECODING
    assert chain.denoiser.ran == list(range(1, STEPS + 1))


async def test_checkpoint_that_cannot_be_saved_stops_nothing(chain: Chain) -> None:
    """An outage in the middle of the run costs a checkpoint and nothing else."""
    work = await chain.start()

    async def leave() -> None:
        chain.store.is_away = True

    async def come_back() -> None:
        chain.store.is_away = False

    chain.denoiser.points.acts |= {1: leave, 3: come_back}
    await chain.denoise().handle(work, Pulse())
    assert (await chain.record(work.job)).state is State.DECODING


async def test_record_that_moved_though_the_answer_was_lost(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compare-and-set that took effect before the connection broke counts."""
    work = await chain.start()
    lost = chain.lose_answer(monkeypatch, lambda changed: changed.state is State.DECODING)
    await chain.denoise().handle(work, Pulse())
    assert len(lost) == 1
    assert await chain.has_work(work.job, Stage.DECODE)
    assert chain.keys() == ["latents/1/latents.safetensors"]


async def test_progress_rises_from_the_first_step_to_the_last(chain: Chain) -> None:
    """Progress never falls, starts at once and ends at the end."""
    work = await chain.start()
    async with progress_of(chain, progress_subject("default", work.job)) as messages:
        chain.denoiser.points.acts[1] = settled
        await chain.denoise().handle(work, Pulse())
    shown = [Progress.model_validate_json(message) for message in messages]
    steps: Sequence[int] = [progress.step for progress in shown]
    assert list(steps) == sorted(set(steps))
    assert (steps[0], steps[-1]) == (0, STEPS)
    assert {progress.stage for progress in shown} == {"denoise"}
    assert shown[-1].remaining_s == 0


async def test_cancelled_run_waits_for_its_thread(chain: Chain) -> None:
    """A process that gives up a run ends it at a step: the sampler's thread is free, the record is as it was."""
    work = await chain.start()
    running: list[asyncio.Task[None]] = []

    async def give_up() -> None:
        running[0].cancel()

    chain.denoiser.points.acts[3] = give_up
    running.append(asyncio.create_task(chain.denoise().handle(work, Pulse()), name="run"))
    with pytest.raises(asyncio.CancelledError):
        await running[0]
    assert chain.denoiser.ran == [1, 2, 3]
    assert (await chain.record(work.job)).state is State.RUNNING
    assert chain.group.row.state is GroupState.IDLE
