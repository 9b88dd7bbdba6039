"""Whether the ledger holds every job, and what may be concluded from an absence."""

from datetime import timedelta

import pytest

from vitascope.adapters.memory import HeldTime, MemoryBroker, MemoryObjectStore
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.ids import make_job_id
from vitascope.contracts.objects import REBUILT_KEY
from vitascope.runtime.advance import advance
from vitascope.runtime.completeness import SKEW, Completeness, RebuildMark, save_mark


class World:
    def __init__(self) -> None:
        self.time = HeldTime()
        self.broker, self.store = MemoryBroker(timing=self.time), MemoryObjectStore()
        self.completeness = Completeness(self.broker.ledger, self.store)

    async def mark(self) -> None:
        birth = await self.broker.ledger.get_birth()
        await save_mark(self.store, RebuildMark(birth=birth, at=self.time.now()))


@pytest.fixture
def world() -> World:
    return World()


async def test_a_new_ledger_is_not_complete_until_it_is_marked(world: World) -> None:
    """And its successor is not, though the mark is still there."""
    assert not await world.completeness.is_complete()
    await world.mark()
    assert await world.completeness.is_complete()
    world.time.advance(1)
    world.broker.lose()
    assert not await world.completeness.is_complete()
    await world.mark()
    assert await world.completeness.is_complete()


async def test_a_complete_ledger_needs_no_store(world: World) -> None:
    """Once known, it stays so."""
    await world.mark()
    await world.completeness.check()
    world.store.is_away = True
    await world.completeness.check()


async def test_an_unreadable_mark_is_none(world: World) -> None:
    """The ledger is rebuilt once more, which changes nothing."""
    world.store.objects[REBUILT_KEY] = b"{"
    with pytest.raises(VitascopeError) as raised:
        await world.completeness.check()
    assert FailureCode.SERVICE_UNAVAILABLE is raised.value.code


async def test_a_store_that_is_away_is_said(world: World) -> None:
    """Nothing is concluded."""
    world.store.is_away = True
    with pytest.raises(VitascopeError) as raised:
        await world.completeness.is_complete()
    assert FailureCode.STORE_UNAVAILABLE is raised.value.code


@pytest.mark.parametrize(
    ("code", "age"),
    [
        pytest.param(FailureCode.SERVICE_UNAVAILABLE, timedelta(days=-1), id="older than the ledger: it may come back"),
        pytest.param(FailureCode.SERVICE_UNAVAILABLE, SKEW / 2, id="about as old: clocks differ"),
        pytest.param(FailureCode.NOT_FOUND, 2 * SKEW, id="younger: there is none"),
    ],
)
async def test_a_change_of_a_job_that_is_not_there(world: World, code: FailureCode, age: timedelta) -> None:
    """A job of a lost ledger is a matter of waiting, so that no work is given up for it."""
    job = make_job_id(await world.broker.ledger.get_birth() + age)
    with pytest.raises(VitascopeError) as raised:
        await advance(world.broker.ledger, job, lambda record: record)
    assert code is raised.value.code
