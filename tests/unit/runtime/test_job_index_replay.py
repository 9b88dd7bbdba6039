"""The read model forgets what the ledger has forgotten."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from doors import until
from records import queued_record, record_in
from vitascope.adapters.memory import MemoryBroker
from vitascope.contracts.flow import State
from vitascope.runtime.job_index import JobIndex

ALL = tuple(State)


@asynccontextmanager
async def _following(index: JobIndex, broker: MemoryBroker) -> AsyncIterator[None]:
    task = asyncio.create_task(index.run(broker.ledger))
    try:
        assert await index.wait_synced(5)
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vitascope.runtime.job_index.REPLAY_EVERY_S", 0.005)


async def test_a_forgotten_job_is_no_longer_listed_after_a_replay() -> None:
    """The feed does not tell; those that stay, stay, and what comes between two replays is there at once."""
    broker, index = MemoryBroker(), JobIndex()
    forgotten, stays = [await broker.ledger.create(record_in(State.EXPIRED)) for _ in range(2)]
    async with _following(index, broker):
        assert {forgotten.record.id, stays.record.id} == set(index.find_page("default", ALL, limit=5).ids)
        await broker.ledger.forget(forgotten)
        await until(lambda: index.count(State.EXPIRED) == 1, turns=1_000_000)
        assert (stays.record.id,) == index.find_page("default", ALL, limit=5).ids
        fresh = await broker.ledger.create(queued_record())
        await until(lambda: index.find_place(fresh.record.id), turns=1_000_000)


async def test_a_lost_ledger_empties_the_list_and_its_rebuild_fills_it() -> None:
    """Revisions rise over a loss, so what comes again is news."""
    broker, index = MemoryBroker(), JobIndex()
    record = queued_record()
    await broker.ledger.create(record)
    async with _following(index, broker):
        broker.ledger.lose()
        await until(lambda: index.count(State.QUEUED) == 0, turns=1_000_000)
        await broker.ledger.create(record)
        await until(lambda: index.count(State.QUEUED) == 1, turns=1_000_000)
