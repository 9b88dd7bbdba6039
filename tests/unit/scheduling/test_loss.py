"""The ledger is lost while everything runs: the dispatcher rebuilds it and goes on with what it holds now."""

import asyncio

import pytest

from records import queued_record, record_in
from unit.scheduling.world import World
from vitascope.contracts.flow import State
from vitascope.contracts.jobs import JobRecord
from vitascope.contracts.objects import REBUILT_KEY
from vitascope.contracts.pools import GroupState
from vitascope.contracts.transitions import LEDGER_LOST_ATTEMPTS
from vitascope.runtime.copies import put_copy
from vitascope_operator.scheduling import dispatcher, loss
from vitascope_operator.scheduling.loss import wait_lost


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """Looks and pauses last one turn of the loop."""
    monkeypatch.setattr(loss, "LOOK_S", 0.0)
    monkeypatch.setattr(loss, "RETRY_S", 0.0)
    monkeypatch.setattr(dispatcher, "RETRY_S", 0.0)
    return World()


async def _lose(world: World) -> None:
    """The server comes back without its files."""
    world.broker.set_connected(connected=False)
    await world.settle()
    world.time.advance(60)
    world.broker.lose()
    world.broker.set_connected(connected=True)
    await world.settle()


async def _copy(world: World, record: JobRecord) -> JobRecord:
    await put_copy(world.store, record)
    return record


async def test_a_start_with_an_empty_ledger_rebuilds_it(world: World) -> None:
    """And dispatches what it finds; the ended job is there as it was."""
    queued = await _copy(world, queued_record(world.time.now()))
    ended = await _copy(world, record_in(State.SUCCEEDED, world.time.now()))
    world.time.advance(60)
    world.broker.lose()
    async with world.dispatching():
        await world.add_group()
        record = await world.get(queued)
        assert (State.RUNNING, LEDGER_LOST_ATTEMPTS + 1) == (record.state, record.run.attempt)
        assert ended == await world.get(ended)


async def test_a_loss_while_it_dispatches(world: World) -> None:
    """The running job is queued anew, with an attempt above that of the group that still works on it, and starts."""
    async with world.dispatching():
        await world.add_group()
        job = await world.add_job()
        before = await _copy(world, await world.get(job))
        assert 1 == before.run.attempt
        await _lose(world)
        assert State.QUEUED is (await world.get(job)).state
        await world.add_group("g1")
        record = await world.get(job)
        assert (State.RUNNING, LEDGER_LOST_ATTEMPTS + 2) == (record.state, record.run.attempt)
        assert await world.has_work(record, record.run.group or "")


async def test_an_outage_between_two_looks_is_noticed(world: World) -> None:
    """Nobody saw the server away; the number of connections tells."""
    async with world.dispatching():
        job = await _copy(world, await world.add_job())
        world.broker.set_connected(connected=False)
        world.time.advance(60)
        world.broker.lose()
        world.broker.set_connected(connected=True)
        await world.settle()
        assert LEDGER_LOST_ATTEMPTS == (await world.get(job)).run.attempt


async def test_a_job_that_cannot_be_rebuilt_is_not_dispatched(world: World) -> None:
    """Its record was in the view of the lost ledger: a group does not wait for it, and takes another job."""
    async with world.dispatching():
        gone = await world.add_job()
        await _lose(world)
        assert await world.broker.ledger.get(gone.id) is None
        await world.add_group()
        job = await world.add_job()
        assert State.RUNNING is (await world.get(job)).state
        assert not await world.has_work(gone)


async def test_dispatch_does_not_wait_for_the_rebuild(world: World) -> None:
    """The store is away: jobs that are accepted meanwhile run; the ledger is complete later."""
    lost = await _copy(world, queued_record(world.time.now()))
    world.time.advance(60)
    world.broker.lose()
    world.store.is_away = True
    async with world.dispatching():
        await world.add_group()
        job = await world.add_job()
        assert State.RUNNING is (await world.get(job)).state
        assert await world.broker.ledger.get(lost.id) is None
        world.store.is_away = False
        await world.settle()
        assert REBUILT_KEY in world.store.objects
        assert State.QUEUED is (await world.get(lost)).state


async def test_silence_of_an_outage_that_nobody_saw_is_forgiven(world: World) -> None:
    """A group could not renew its row; the job stays with it."""
    async with world.dispatching():
        await world.add_group(state=GroupState.IDLE)
        job = await world.add_job()
        world.broker.set_connected(connected=False)
        world.time.advance(20)
        world.broker.set_connected(connected=True)
        await world.settle()
        other = await world.add_job()
        assert (State.RUNNING, 1) == ((await world.get(job)).state, (await world.get(job)).run.attempt)
        assert State.QUEUED is (await world.get(other)).state


async def test_it_waits_as_long_as_the_ledger_is_the_same(world: World) -> None:
    """However often the connection is made anew; and it ends once another one answers."""
    ledger, bus = world.broker.ledger, world.broker.bus
    waiting = asyncio.create_task(wait_lost(ledger, bus, await ledger.get_birth()), name="under test")
    for _ in range(3):
        world.broker.set_connected(connected=False)
        await world.settle()
        world.broker.set_connected(connected=True)
        await world.settle()
    assert not waiting.done()
    await _lose(world)
    await world.settle(waiting.done)
    assert waiting.done()


async def test_a_bucket_deleted_under_a_standing_connection_is_found(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger is asked now and then all the same."""
    monkeypatch.setattr(loss, "ASK_EVERY_S", 0.0)
    ledger, bus = world.broker.ledger, world.broker.bus
    waiting = asyncio.create_task(wait_lost(ledger, bus, await ledger.get_birth()), name="under test")
    await world.settle()
    assert not waiting.done()
    world.time.advance(1)
    ledger.lose()
    await world.settle(waiting.done)
    assert waiting.done()
