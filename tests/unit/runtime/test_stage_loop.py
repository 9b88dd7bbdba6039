"""The stage loop takes, keeps alive, hands back and drains; what outcomes lead to is in test_settle."""

import asyncio

import pytest
from prometheus_client import REGISTRY

from unit.runtime.world import ScriptedHandler, World, raising, settled, succeeding, taken, waiting
from vitascope.adapters.limits import ACK_WAIT_S
from vitascope.contracts.events import WorkItem
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.flow import Stage, State
from vitascope.contracts.transitions import StaleAttempt
from vitascope.runtime import stage_loop
from vitascope.runtime.outcome import MAX_TAKES, compute_delay_s
from vitascope.runtime.ports import Bus
from vitascope.runtime.stage import HandBack, Pulse


async def test_done_work_is_gone() -> None:
    """A handler that returns has done everything: the event is acknowledged and nothing is recorded by the loop."""
    world = World(Stage.DECODE, succeeding)
    async with world.working():
        await settled()
        assert not await world.has_work()
    assert await world.record() == world.started
    assert [item.job for item in world.handler.seen] == [world.started.id]


@pytest.mark.parametrize("limit", [1, 2])
async def test_limit_bounds_what_runs_at_once(limit: int) -> None:
    """No more deliveries run at once than the limit says, and no fewer."""
    first, second = World(Stage.ENCODE, waiting), World(Stage.ENCODE, waiting)
    await first.ledger.create(second.started)
    await first.bus.publish_work(second.subject(), second.event)
    async with first.working(limit=limit):
        await settled()
        assert len(first.handler.seen) == limit


async def test_event_that_comes_again_while_it_is_in_hand_is_not_begun_twice() -> None:
    """The bus took the run for dead (its beats were lost): the run goes on, and its copy then finds the work done."""
    go_on = asyncio.Event()
    world = World(Stage.DECODE)

    async def work(_work: WorkItem, _pulse: Pulse) -> None:
        await go_on.wait()
        await world.finish_stage()

    world.handler.script = [work, raising(StaleAttempt())]
    async with world.working(limit=2):
        for _ in range(MAX_TAKES + 2):
            await world.pass_time(ACK_WAIT_S + 1)
        assert 1 == len(world.handler.seen)
        go_on.set()
        await settled()
        assert not await world.has_work()
    assert State.ENCODING is (await world.record()).state
    assert not world.broker.bus.dead


async def test_a_failure_is_spaced_whatever_copies_of_its_event_wait() -> None:
    """The copy that the bus sent meanwhile does not begin in the moment in which the run has failed."""
    fail = asyncio.Event()
    world = World(Stage.DECODE)

    async def work(_work: WorkItem, _pulse: Pulse) -> None:
        await fail.wait()
        raise VitascopeError(FailureCode.DECODE_FAILED)

    world.handler.script = [work, waiting]
    async with world.working(limit=2):
        await world.pass_time(ACK_WAIT_S + 1)
        fail.set()
        await settled()
        assert 1 == len(world.handler.seen)
        await world.pass_time(compute_delay_s(MAX_TAKES))
        assert 2 == len(world.handler.seen)


async def test_drain_lets_running_work_hand_back() -> None:
    """A drain tells the handler, waits for it, and leaves the event to others at once; nothing new is taken."""
    world = World(Stage.DECODE)

    async def hand_back(_work: WorkItem, _pulse: Pulse) -> None:
        await world.handler.told_to_drain.wait()
        raise HandBack

    world.handler.script.append(hand_back)
    async with world.working() as loop:
        await settled()
        await loop.drain(grace_s=60)
        assert loop.is_draining
        assert not loop.has_abandoned
        async with world.bus.consume(Stage.DECODE, "default") as rival:
            assert (await taken(rival)).deliveries == 2
    assert len(world.handler.seen) == 1
    assert await world.record() == world.started


async def test_drain_lets_running_work_finish() -> None:
    """What comes to its end within the grace is done, not repeated."""
    world = World(Stage.DECODE)

    async def finish(_work: WorkItem, _pulse: Pulse) -> None:
        await world.handler.told_to_drain.wait()

    world.handler.script.append(finish)
    async with world.working() as loop:
        await settled()
        await loop.drain(grace_s=60)
        assert not await world.has_work()


async def test_drain_past_the_grace_hands_back_what_is_stubborn() -> None:
    """A handler that does not stop is cancelled and its event is free at once."""
    world = World(Stage.DECODE, waiting)
    async with world.working() as loop:
        await settled()
        await loop.drain(grace_s=0)
        assert loop.has_abandoned
        async with world.bus.consume(Stage.DECODE, "default") as rival:
            assert (await taken(rival)).event.subject == world.started.id


async def test_drain_twice_tells_the_handler_once() -> None:
    """A second drain waits with the first and changes nothing."""
    world = World(Stage.DECODE, succeeding)
    told: list[str] = []

    class Counting(ScriptedHandler):
        async def drain(self) -> None:
            told.append("drain")

    world.handler = Counting(Stage.DECODE, succeeding)
    async with world.working() as loop:
        await settled()
        await asyncio.gather(loop.drain(1), loop.drain(1))
    assert told == ["drain"]


async def test_drained_before_it_ran_takes_nothing() -> None:
    """A process that is told to stop while it loads never begins."""
    world = World(Stage.DECODE, succeeding)
    loop = world.make_loop()
    await world.bus.publish_work(world.subject(), world.event)
    await loop.drain(grace_s=1)
    await loop.run()
    assert await world.has_work()
    assert world.handler.seen == []


async def test_cancelled_loop_hands_everything_back() -> None:
    """Cancellation passes through, and the event is free at once."""
    world = World(Stage.DECODE, waiting)
    async with world.working():
        await settled()
    async with world.bus.consume(Stage.DECODE, "default") as rival:
        assert (await taken(rival)).deliveries == 2


async def test_bus_that_is_away_at_the_start_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop that cannot bind its consumer tries again until it can."""
    monkeypatch.setattr(stage_loop, "REBIND_S", 0)
    world = World(Stage.DECODE, succeeding)
    real, refusals = world.broker.bus.consume, iter(range(3))

    def refuse_thrice(*args: object, **kwargs: object) -> object:
        if next(refusals, None) is not None:
            raise VitascopeError(FailureCode.BUS_UNAVAILABLE)
        return real(*args, **kwargs)  # type: ignore[arg-type] (passed through)

    monkeypatch.setattr(world.broker.bus, "consume", refuse_thrice)
    async with world.working():
        await settled()
        assert not await world.has_work()
    assert len(world.handler.seen) == 1


async def test_error_of_ours_in_the_bus_ends_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no outage is not waited for: the process shall end and say so."""
    world = World(Stage.DECODE, succeeding)

    def refuse(*_args: object, **_kwargs: object) -> Bus:
        raise VitascopeError(FailureCode.INTERNAL_ERROR, "no such consumer")

    monkeypatch.setattr(world.broker.bus, "consume", refuse)
    with pytest.raises(ExceptionGroup) as caught:
        await world.make_loop().run()
    assert caught.group_contains(VitascopeError, match="no such consumer")


async def test_metrics_tell_what_runs_and_how_it_ended() -> None:
    """The busy gauge follows the runs, and each end is counted under its outcome."""
    labels = {"stage": "encode", "outcome": "done"}
    before = REGISTRY.get_sample_value("vitascope_stage_duration_seconds_count", labels) or 0
    release = asyncio.Event()

    async def wait(_work: WorkItem, _pulse: Pulse) -> None:
        await release.wait()

    world = World(Stage.ENCODE, wait)
    async with world.working():
        await settled()
        assert REGISTRY.get_sample_value("vitascope_stage_busy", {"stage": "encode"}) == 1
        release.set()
    assert REGISTRY.get_sample_value("vitascope_stage_busy", {"stage": "encode"}) == 0
    assert REGISTRY.get_sample_value("vitascope_stage_duration_seconds_count", labels) == before + 1


async def test_failure_in_one_run_leaves_the_other_alone() -> None:
    """Two runs of one process share nothing but the process."""
    first, second = World(Stage.ENCODE), World(Stage.ENCODE)

    async def fail_the_first(work: WorkItem, pulse: Pulse) -> None:
        await (raising(RuntimeError())(work, pulse) if work.job == first.started.id else waiting(work, pulse))

    first.handler.script.append(fail_the_first)
    await first.ledger.create(second.started)
    await first.bus.publish_work(second.subject(), second.event)
    async with first.working(limit=2):
        await settled()
        assert (await first.record()).run.failures == 1
        current = await first.ledger.get(second.started.id)
        assert current is not None
        assert current.record.state is State.ENCODING
        assert await first.bus.has_work(second.subject())
