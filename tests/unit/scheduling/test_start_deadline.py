"""A start deadline is for the start: nothing starts late, and nothing that has started is refused for it."""

from datetime import timedelta
from typing import Any

import pytest

from unit.scheduling.world import World
from vitascope.contracts import transitions
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.flow import State
from vitascope.runtime.advance import advance
from vitascope_operator.scheduling import dispatcher


@pytest.fixture
def world() -> World:
    return World()


async def test_job_is_not_started_late_though_a_group_comes_free_at_that_moment(world: World) -> None:
    """The deadline and the free group come together: the job is given up and the group stays free for another."""
    async with world.dispatching():
        late = await world.add_job(start_deadline=world.time.now() + timedelta(seconds=5))
        world.time.advance(5)
        await world.add_group()
        other = await world.add_job()
        assert State.FAILED is (await world.get(late)).state
        assert 0 == (await world.get(late)).run.attempt
        assert State.RUNNING is (await world.get(other)).state


async def test_job_that_could_not_be_given_up_is_not_started_late(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger refuses while the deadline passes: later the job is given up, and not dispatched before."""
    monkeypatch.setattr(dispatcher, "RETRY_S", 0.0)
    real, refusals = world.broker.ledger.replace, iter(range(3))

    async def refuse_thrice(*args: Any) -> object:
        if next(refusals, None) is not None:
            raise VitascopeError(FailureCode.BUS_UNAVAILABLE)
        return await real(*args)

    async with world.dispatching():
        job = await world.add_job(start_deadline=world.time.now() + timedelta(seconds=5))
        monkeypatch.setattr(world.broker.ledger, "replace", refuse_thrice)
        world.time.advance(5)
        await world.add_group()
        for _ in range(5):
            world.time.advance(1)
            await world.add_group()
        record = await world.get(job)
        assert record.run.failure is not None
        assert (0, FailureCode.START_DEADLINE_PASSED) == (record.run.attempt, record.run.failure.code)


@pytest.mark.parametrize("reason", ["preempted", "lost"])
async def test_job_that_had_started_is_dispatched_again_past_its_start_deadline(world: World, reason: str) -> None:
    """The deadline is for the start: who was preempted or lost its group has started in time, and goes on."""
    async with world.dispatching():
        job = await world.add_job(start_deadline=world.time.now() + timedelta(seconds=5))
        await world.add_group()
        assert State.RUNNING is (await world.get(job)).state
        world.time.advance(10)
        await world.add_group(holder="h" if reason == "preempted" else "restarted")
        if reason == "preempted":
            await advance(world.broker.ledger, job.id, lambda r: transitions.requeue(r, 1, reason, preempted=True))
            await world.settle()
        record = await world.get(job)
        assert (State.RUNNING, 2) == (record.state, record.run.attempt)
