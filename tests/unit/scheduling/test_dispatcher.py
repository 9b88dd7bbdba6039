"""The dispatcher on ports in memory, with a clock that a test holds."""

import asyncio
from datetime import timedelta

import pytest

from unit.scheduling.world import World
from vitascope.contracts import transitions
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.flow import State
from vitascope.contracts.jobs import JobRecord
from vitascope.contracts.pools import GroupState
from vitascope.runtime.advance import advance
from vitascope.runtime.ports import Stamped
from vitascope_operator.scheduling.dispatcher import MAX_LOSSES
from vitascope_operator.scheduling.view import REPAIR_AFTER_S


@pytest.fixture
def world() -> World:
    return World()


async def test_queued_job_starts_on_a_free_group(world: World) -> None:
    """The record is running with its first attempt, and the event waits for that group."""
    async with world.dispatching():
        await world.add_group()
        job = await world.add_job()
        record = await world.get(job)
        assert (State.RUNNING, 1, "g0") == (record.state, record.run.attempt, record.run.group)
        assert await world.has_work(job)


async def test_one_group_takes_one_job_at_a_time(world: World) -> None:
    """The second waits until the first no longer needs the group."""
    async with world.dispatching():
        await world.add_group()
        first, second = await world.add_job(), await world.add_job()
        states = {(await world.get(job)).state for job in (first, second)}
        assert {State.RUNNING, State.QUEUED} == states
        running = first if (await world.get(first)).state is State.RUNNING else second
        await advance(world.broker.ledger, running.id, lambda r: transitions.cancel(r, world.time.now()))
        await world.settle()
        waiting = second if running is first else first
        assert (await world.get(waiting)).state is State.RUNNING


async def test_job_of_a_lost_group_runs_elsewhere_with_a_new_attempt(world: World) -> None:
    """After the lease time without a sign of life; the reason is kept until it starts again."""
    async with world.dispatching():
        await world.add_group("g0")
        job = await world.add_job()
        world.time.advance(15)
        await world.add_group("g1")
        record = await world.get(job)
        assert (State.RUNNING, 2, "g1") == (record.state, record.run.attempt, record.run.group)
        assert [False, True] == [await world.has_work(job, group) for group in ("g0", "g1")]


async def test_event_of_a_lost_group_goes_even_if_the_change_is_heard_of_first(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger's feed may be faster than the answer to the one who made the change."""
    async with world.dispatching():
        await world.add_group("g0")
        job = await world.add_job()
        real = world.broker.ledger.replace

        async def answer_late(current: Stamped, record: JobRecord) -> Stamped:
            stamped = await real(current, record)
            for _ in range(20):
                await asyncio.sleep(0)
            return stamped

        monkeypatch.setattr(world.broker.ledger, "replace", answer_late)
        world.time.advance(15)
        await world.add_group("g1", state=GroupState.BUSY)
        assert State.QUEUED is (await world.get(job)).state
        assert not await world.has_work(job, "g0")


async def test_job_that_ends_every_group_fails(world: World) -> None:
    """A job that takes its process down each time does not take the whole pool down."""
    async with world.dispatching():
        await world.add_group(holder="first")
        job = await world.add_job()
        for restart in range(MAX_LOSSES):
            await world.add_group(holder=f"restart {restart}")
        record = await world.get(job)
        assert record.run.failure is not None
        assert (State.FAILED, FailureCode.GROUP_LOST) == (record.state, record.run.failure.code)


async def test_job_of_groups_that_leave_is_not_to_blame(world: World) -> None:
    """However often its group goes in peace before the job has begun there, as in a rolling restart, it runs on."""
    async with world.dispatching():
        job = await world.add_job()
        for turn in range(2 * MAX_LOSSES):
            await world.add_group(f"g{turn}")
            assert turn + 1 == (await world.get(job)).run.attempt
            await world.remove_group(f"g{turn}")
        record = await world.get(job)
        assert (State.QUEUED, 0, "its GPU group left") == (record.state, record.run.failures, record.run.reason)


async def test_missing_event_is_published_again(world: World) -> None:
    """A crash between the record and its event: the next dispatcher sees that it is missing."""
    job = await world.add_job()
    await advance(world.broker.ledger, job.id, lambda r: transitions.start(r, "g0", world.time.now()))
    async with world.dispatching():
        await world.add_group(state=GroupState.BUSY)
        assert not await world.has_work(job)
        world.time.advance(REPAIR_AFTER_S)
        await world.add_group(state=GroupState.BUSY)
        assert await world.has_work(job)
        assert 1 == (await world.get(job)).run.attempt


async def test_late_job_fails_with_its_code(world: World) -> None:
    """A start deadline that passed in the queue ends the job without any GPU time."""
    async with world.dispatching():
        job = await world.add_job(start_deadline=world.time.now() + timedelta(seconds=5))
        world.time.advance(5)
        await world.add_group(state=GroupState.BUSY)
        record = await world.get(job)
        assert record.run.failure is not None
        assert (State.FAILED, FailureCode.START_DEADLINE_PASSED) == (record.state, record.run.failure.code)


async def test_second_dispatcher_stands_by_and_takes_over(world: World) -> None:
    """Only the holder of the lease acts; when it ends, the other knows everything from the ledger."""
    async with world.dispatching("two-b") as standby:
        async with world.dispatching("one-a"):
            await world.add_group()
            job = await world.add_job()
            assert 1 == (await world.get(job)).run.attempt
        assert not standby.done()
    async with world.dispatching("three"):
        await world.add_group("g9")
        other = await world.add_job()
        assert "g9" == (await world.get(other)).run.group


async def test_outage_of_the_bus_costs_nothing(world: World) -> None:
    """While nothing can be reached nothing is lost; afterwards the queue moves again."""
    async with world.dispatching() as task:
        await world.add_group()
        world.broker.set_connected(connected=False)
        with pytest.raises(VitascopeError):
            await world.add_job()
        world.broker.set_connected(connected=True)
        job = await world.add_job()
        assert not task.done()
        assert (await world.get(job)).state is State.RUNNING
