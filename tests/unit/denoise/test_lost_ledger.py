"""The ledger is lost under a stage at work: what the job will be rebuilt from stays, whatever the stage comes to."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from unit.denoise.chain import STEPS, Chain, compute_latents
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.flow import Stage, State
from vitascope.contracts.jobs import JobRecord, ObjectRef
from vitascope.contracts.objects import ObjectClass, record_key
from vitascope.contracts.transitions import LEDGER_LOST_ATTEMPTS, StaleAttempt
from vitascope.runtime import persist
from vitascope.runtime.copies import put_copy
from vitascope.runtime.leftovers import remove_served
from vitascope.runtime.rebuild import Rebuilder
from vitascope.runtime.stage import Pulse

DAY_S = 86_400.0


async def _lose(chain: Chain, job: str) -> None:
    """The copy is as new as the record, as publish keeps it; then the ledger goes."""
    await put_copy(chain.store, await chain.record(job))
    chain.clock.advance(10 * DAY_S)
    chain.broker.ledger.lose()


async def _rebuild(chain: Chain) -> None:
    await Rebuilder(chain.ledger, chain.store, chain.clock).run()


async def test_a_denoise_that_ends_meanwhile_waits_for_the_rebuild(
    chain: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then it is stale, and takes only its own away: the job goes on from the checkpoint that the copy named."""
    monkeypatch.setattr(persist, "DELAYS_S", (0.0,) * 10_000)
    work = await chain.start()
    chain.denoiser.points.acts[5] = lambda: _lose(chain, work.job)
    run = asyncio.create_task(chain.denoise().handle(work, Pulse()), name="under test")
    while not chain.keys("latents"):  # noqa: ASYNC110 (the test's own limit ends it)
        await asyncio.sleep(0)
    assert not run.done()
    await _rebuild(chain)
    with pytest.raises(StaleAttempt):
        await run
    record = await chain.record(work.job)
    assert (State.QUEUED, 4, 1 + LEDGER_LOST_ATTEMPTS) == (record.state, record.run.step, record.run.attempt)
    assert ["checkpoints/1/000004.safetensors"] == chain.keys()
    chain.denoiser.points.acts.clear()
    again = await chain.dispatch(work.job)
    await chain.denoise().handle(again, Pulse())
    latents = (await chain.record(work.job)).run.latents
    assert latents is not None
    assert compute_latents(seed=7) == await chain.store.get(latents)
    assert [*range(1, STEPS + 1), 5, 6] == chain.denoiser.ran


async def test_a_checkpoint_that_cannot_be_recorded_replaces_none(chain: Chain) -> None:
    """Without a record nobody knows which one a rebuild will ask for."""
    work = await chain.start()
    chain.denoiser.points.acts[3] = lambda: _lose(chain, work.job)

    async def look() -> None:
        assert "checkpoints/1/000002.safetensors" in set(chain.keys())
        await _rebuild(chain)

    chain.denoiser.points.acts[6] = look
    with pytest.raises(StaleAttempt):
        await chain.denoise().handle(work, Pulse())
    checkpoint = (await chain.record(work.job)).run.checkpoint
    assert checkpoint is not None
    assert 2 == checkpoint.step
    assert await chain.store.size(checkpoint.object.key) == checkpoint.object.bytes


class NoCopies:
    """Has a store refuse copies of records."""

    def __init__(self, chain: Chain) -> None:
        self._put = chain.store.put
        chain.store.put = self.put  # type: ignore[method-assign] (the double of a store that is away for some keys)

    async def put(self, key: str, content: bytes | bytearray | memoryview, content_type: str) -> ObjectRef:
        if key.startswith(f"{ObjectClass.RECORDS}/"):
            raise VitascopeError(FailureCode.STORE_UNAVAILABLE)
        return await self._put(key, content, content_type)


async def test_nothing_is_removed_before_its_copy_is_stored(chain: Chain) -> None:
    """The copy may still point to the checkpoint before the last, and to the last while the job decodes."""
    NoCopies(chain)
    work = await chain.start()
    await chain.denoise().handle(work, Pulse())
    assert State.DECODING is (await chain.record(work.job)).state
    assert ["checkpoints/1/000002.safetensors", "checkpoints/1/000004.safetensors"] == chain.keys("checkpoints")


async def test_the_copy_is_there_when_something_is_removed(chain: Chain) -> None:
    """Every removal is preceded by a copy of the record that no longer needs what goes."""
    work, copies = await chain.start(), list[JobRecord]()
    remove = chain.store.remove

    async def look(keys: list[str]) -> None:
        copies.append(JobRecord.from_bytes(chain.store.objects[record_key(await chain.record(work.job))]))
        await remove(keys)

    chain.store.remove = look  # type: ignore[method-assign, assignment] (looks first)
    await chain.denoise().handle(work, Pulse())
    assert [State.RUNNING, State.DECODING] == [copy.state for copy in copies]
    assert copies[0].run.checkpoint is not None
    assert 4 == copies[0].run.checkpoint.step


@pytest.mark.parametrize("fate", ["lost", "rebuilt"])
async def test_what_has_served_a_lost_record_is_not_removed(
    pool: ThreadPoolExecutor, tmp_path: Path, fate: str
) -> None:
    """A clip was encoded, and the ledger lost before its latents went: the rebuilt job needs them."""
    chain = Chain(pool, tmp_path)
    job = await chain.run_to(Stage.ENCODE)
    work = await chain.work_for(job, Stage.ENCODE)
    await _lose(chain, job)
    if fate == "rebuilt":
        await _rebuild(chain)
    await remove_served(chain.ledger, chain.store, work, (ObjectClass.LATENTS, ObjectClass.FRAMES))
    assert ["latents/1/latents.safetensors"] == chain.keys("latents")
