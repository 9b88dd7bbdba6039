"""A run that hangs, takes too long, or runs out of memory: what the record says, and whether the process may go on."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from records import NOW, record_in
from unit.runtime.world import World, raising, settled, succeeding, taken, waiting
from vitascope.contracts import transitions
from vitascope.contracts.deadlines import StageLimits
from vitascope.contracts.events import WorkItem
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.flow import Stage, State
from vitascope.contracts.transitions import StaleAttempt
from vitascope.runtime import fitness, stage_run
from vitascope.runtime.advance import advance
from vitascope.runtime.stage import Pulse

NO_SILENCE = StageLimits(step_s=0.0, first_s=0.0, limit_s=1e9)
NO_TIME = StageLimits(step_s=0.0, first_s=1e9, limit_s=0.0)
SAYS = {FailureCode.STAGE_STALLED: "No chunk for 0 s", FailureCode.STAGE_TIMED_OUT: "at work for 0 s"}


@pytest.fixture(autouse=True)
def _look_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_run, "BEAT_S", 0)


def hanging(limits: StageLimits = NO_SILENCE) -> Callable[[WorkItem, Pulse], Awaitable[None]]:
    """Gives no sign of life, and comes to its end when it is cancelled."""

    async def script(work: WorkItem, pulse: Pulse) -> None:
        pulse.expect(limits)
        await waiting(work, pulse)

    return script


class Hung:
    """A handler that does not hear of its cancellation until the test lets it go; then it tries to do harm."""

    def __init__(self, world: World, limits: StageLimits = NO_SILENCE) -> None:
        self.world, self.limits, self.woken = world, limits, asyncio.Event()
        self.refused: list[Exception] = []

    async def __call__(self, work: WorkItem, pulse: Pulse) -> None:
        pulse.expect(self.limits)
        while not self.woken.is_set():
            try:
                await self.woken.wait()
            except asyncio.CancelledError:
                continue
        try:
            await advance(self.world.ledger, work.job, lambda record: transitions.requeue(record, work.attempt, "late"))
        except StaleAttempt as error:
            self.refused.append(error)
            raise


@pytest.mark.parametrize("stage", [Stage.DECODE, Stage.ENCODE])
async def test_hung_run_is_recorded_and_its_event_goes_to_somebody_else(stage: Stage) -> None:
    """A counted failure with its reason, a pause, the event for another process, and this one says that it must end."""
    world = World(stage, hanging())
    async with world.working() as loop:
        await settled()
        assert loop.stalled.is_set()
        run = (await world.record()).run
        assert (run.failures, run.state) == (1, world.started.state)
        assert run.reason is not None
        assert "No chunk for 0 s" in run.reason
        async with world.bus.consume(stage, "default") as rival:
            other = asyncio.ensure_future(anext(rival))
            await world.pass_time(0.9)
            assert not other.done()
            await world.pass_time(0.1)
            assert other.result().event.subject == world.started.id
    assert len(world.handler.seen) == 1


async def test_hung_denoise_goes_back_to_the_queue() -> None:
    """With its reason, counted, after a pause; its event is done with."""
    world = World(Stage.DENOISE, hanging())
    async with world.working() as loop:
        await settled()
        assert loop.stalled.is_set()
        assert not await world.has_work()
    run = (await world.record()).run
    assert (run.state, run.failures, run.group) == (State.QUEUED, 1, None)
    assert run.not_before == world.time.now() + timedelta(seconds=1)
    assert run.reason is not None
    assert "No step for 0 s" in run.reason


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        pytest.param(NO_SILENCE, FailureCode.STAGE_STALLED, id="stalled"),
        pytest.param(NO_TIME, FailureCode.STAGE_TIMED_OUT, id="timed out"),
    ],
)
async def test_third_time_is_the_end_of_the_job(limits: StageLimits, code: FailureCode) -> None:
    """The job fails with the code of what happened, and people get the event."""
    record = record_in(State.DECODING)
    for _ in range(2):
        record = transitions.note_failure(record, 1, Stage.DECODE, "failed")
    world = World(Stage.DECODE, hanging(limits), record=record)
    async with world.working():
        await settled()
        assert not await world.has_work()
    failure = (await world.record()).run.failure
    assert failure is not None
    assert (code, "decode") == (failure.code, failure.stage)
    assert SAYS[code] in failure.message
    assert len(world.broker.bus.dead) == 1


async def test_no_event_is_taken_beside_a_hung_run() -> None:
    """What arrives before the process has ended is handed back at once."""
    first, second = World(Stage.DECODE), World(Stage.DECODE)
    hung = Hung(first)
    first.handler.script.append(hung)
    async with first.working(limit=2) as loop:
        await settled()
        assert loop.stalled.is_set()
        await first.ledger.create(second.started)
        await first.bus.publish_work(second.subject(), second.event)
        await settled()
        assert [first.started.id] == [work.job for work in first.handler.seen]
        assert await first.bus.has_work(second.subject())
        hung.woken.set()


async def test_drain_does_not_wait_for_what_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process is told that something of it may still be at work, so that it does not wait for it at its end."""
    monkeypatch.setattr("vitascope.runtime.stage_loop.CANCEL_S", 0)
    world = World(Stage.DECODE)
    hung = Hung(world)
    world.handler.script.append(hung)
    async with world.working() as loop:
        await settled()
        await loop.drain(grace_s=60)
        assert loop.has_abandoned
        hung.woken.set()


async def test_thread_may_outlive_its_coroutine() -> None:
    """A handler that ends when it is given up may leave a thread behind: the process is told so all the same."""
    world = World(Stage.DECODE, hanging())
    async with world.working() as loop:
        await settled()
        await loop.drain(grace_s=60)
        assert loop.has_abandoned


async def test_what_hung_can_do_no_harm_when_it_wakes() -> None:
    """The job runs elsewhere meanwhile, with another attempt: the late run is refused and changes nothing."""
    world = World(Stage.DENOISE)
    hung = Hung(world)
    world.handler.script.append(hung)
    async with world.working():
        await settled()
        stamped = await advance(world.ledger, world.started.id, lambda record: transitions.start(record, "g1", NOW))
        hung.woken.set()
        await settled()
        assert len(hung.refused) == 1
        assert not await world.has_work(Stage.DECODE)
    assert await world.record() == stamped.record


async def test_run_that_finished_after_all_is_not_undone() -> None:
    """It moved the record in the moment in which it was given up: nothing is counted, what follows is on its way."""
    world = World(Stage.DECODE)

    async def finish_and_hang(work: WorkItem, pulse: Pulse) -> None:
        await world.finish_stage()
        await hanging()(work, pulse)

    world.handler.script.append(finish_and_hang)
    async with world.working() as loop:
        await settled()
        assert loop.stalled.is_set()
        assert not await world.has_work()
        assert await world.has_work(Stage.ENCODE)
    record = await world.record()
    assert (State.ENCODING, 0) == (record.state, record.run.failures)


async def test_stall_in_an_outage_still_ends_the_process() -> None:
    """What cannot be recorded is left to redelivery: the process ends all the same."""
    world = World(Stage.DECODE)

    async def lose_the_bus_and_hang(work: WorkItem, pulse: Pulse) -> None:
        world.broker.set_connected(connected=False)
        await hanging()(work, pulse)

    world.handler.script.append(lose_the_bus_and_hang)
    async with world.working() as loop:
        await settled()
        assert loop.stalled.is_set()
        world.broker.set_connected(connected=True)
        async with world.bus.consume(Stage.DECODE, "default") as rival:
            other = asyncio.ensure_future(anext(rival))
            await world.pass_time(31)
            assert other.result().event.subject == world.started.id
    assert await world.record() == world.started


async def test_run_that_took_too_long_costs_a_try_and_no_process() -> None:
    """It ends when it is told to: the process takes the next event, here the same one again, after its pause."""
    world = World(Stage.DECODE, hanging(NO_TIME), succeeding)
    async with world.working() as loop:
        await settled()
        run = (await world.record()).run
        assert (1, State.DECODING) == (run.failures, run.state)
        assert run.reason is not None
        assert "at work for 0 s" in run.reason
        await world.pass_time(1)
        assert not await world.has_work()
        assert not loop.stalled.is_set()
    assert len(world.handler.seen) == 2


async def test_run_that_took_too_long_and_does_not_end_ends_the_process() -> None:
    """Past the silence that is allowed it is as good as hung."""
    world = World(Stage.DECODE)
    hung = Hung(world, StageLimits(step_s=0.0, first_s=0.01, limit_s=0.0))
    world.handler.script.append(hung)
    async with world.working() as loop:
        async with asyncio.timeout(10):
            await loop.stalled.wait()
        assert (await world.record()).run.failures == 1
        hung.woken.set()


async def test_failed_denoise_has_cost_what_it_worked(monkeypatch: pytest.MonkeyPatch) -> None:
    """GPU-seconds of the failed try are added, every GPU of the group counted."""
    record = record_in(State.RUNNING)
    record = record.model_copy(update={"admission": record.admission.model_copy(update={"group_size": 4})})
    world = World(Stage.DENOISE, record=record)
    time_s = [1000.0]
    monkeypatch.setattr(stage_run.time, "monotonic", lambda: time_s[0])

    async def work_and_fail(_work: WorkItem, _pulse: Pulse) -> None:
        time_s[0] += 12.0
        raise RuntimeError

    world.handler.script.append(work_and_fail)
    async with world.working():
        await settled()
    assert 48.0 == (await world.record()).result.actual_gpu_s


# ---- out of memory --------------------------------------------------------------------------------------------------
OUT_OF_MEMORY = [
    pytest.param(Stage.DENOISE, MemoryError(), State.FAILED, id="denoise"),
    pytest.param(Stage.DECODE, VitascopeError(FailureCode.DECODE_OUT_OF_MEMORY), State.DECODING, id="decode"),
]


@pytest.mark.parametrize(("stage", "error", "state"), OUT_OF_MEMORY)
async def test_process_that_proves_itself_goes_on(stage: Stage, error: Exception, state: State) -> None:
    """One self-test, then the outcome as ever, and the process stays."""
    world = World(stage, raising(error), succeeding)
    proofs: list[State] = []

    async def prove() -> None:
        proofs.append((await world.record()).state)

    world.handler.proofs.append(prove)
    async with world.working() as loop:
        await settled()
        assert [world.started.state] == proofs
        assert state is (await world.record()).state
        assert not loop.stalled.is_set()


@pytest.mark.parametrize(("stage", "error", "state"), OUT_OF_MEMORY)
async def test_process_that_fails_its_self_test_ends(stage: Stage, error: Exception, state: State) -> None:
    """The outcome is recorded first; then the process says that only a restart helps."""
    world = World(stage, raising(error))

    async def fail() -> None:
        raise RuntimeError("the device is lost")

    world.handler.proofs.append(fail)
    async with world.working() as loop:
        await settled()
        assert loop.stalled.is_set()
        record = await world.record()
        assert state is record.state
        assert (record.run.failure is not None) == (state is State.FAILED)


async def test_self_test_that_hangs_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may take a while, not for ever."""
    monkeypatch.setattr(fitness, "PROVE_S", 0.01)
    world = World(Stage.DECODE, raising(MemoryError()))

    async def hang() -> None:
        await asyncio.Event().wait()

    world.handler.proofs.append(hang)
    async with world.working() as loop:
        async with asyncio.timeout(10):
            await loop.stalled.wait()
        assert (await world.record()).run.failures == 1


async def test_no_event_is_begun_before_the_proof() -> None:
    """A second event that has arrived waits for the self-test, and runs after it."""
    first, second = World(Stage.DENOISE), World(Stage.DENOISE)
    opened = asyncio.Event()

    async def fail_the_first(work: WorkItem, pulse: Pulse) -> None:
        await (raising(MemoryError()) if work.job == first.started.id else succeeding)(work, pulse)

    async def prove() -> None:
        await opened.wait()

    first.handler.script.append(fail_the_first)
    first.handler.proofs.append(prove)
    async with first.working(limit=2):
        await settled()
        await first.ledger.create(second.started)
        await first.bus.publish_work(second.subject(), second.event)
        await settled()
        assert [first.started.id] == [work.job for work in first.handler.seen]
        opened.set()
        await settled()
        assert [first.started.id, second.started.id] == [work.job for work in first.handler.seen]


async def test_event_that_waits_for_a_failed_proof_reaches_the_drained_handler() -> None:
    """Drained, a handler puts the job back into the queue, which costs it no failure; so it gets to see it."""
    first, second = World(Stage.DENOISE), World(Stage.DENOISE)
    opened, drained = asyncio.Event(), list[bool]()

    async def fail_the_first(work: WorkItem, pulse: Pulse) -> None:
        if work.job == first.started.id:
            await raising(MemoryError())(work, pulse)
        drained.append(first.handler.told_to_drain.is_set())

    async def fail() -> None:
        await opened.wait()
        raise RuntimeError

    first.handler.script.append(fail_the_first)
    first.handler.proofs.append(fail)
    async with first.working(limit=2) as loop:
        await settled()
        await first.ledger.create(second.started)
        await first.bus.publish_work(second.subject(), second.event)
        await settled()
        opened.set()
        await loop.stalled.wait()
        await loop.drain(grace_s=60)
    assert [True] == drained


async def test_work_longer_than_ack_wait_runs_once() -> None:
    """While the handler shows signs of life its event is delivered to nobody else, however long it takes."""
    world = World(Stage.DECODE, waiting)
    async with world.working():
        await settled()
        async with world.bus.consume(Stage.DECODE, "default") as rival:
            other = asyncio.ensure_future(anext(rival))
            for _ in range(10):
                await world.pass_time(20)
            assert not other.done()
            other.cancel()
            await asyncio.wait({other})
    assert len(world.handler.seen) == 1


async def test_cancelled_loop_hands_back_what_runs() -> None:
    """Cancellation passes through to the handler, and the event is free at once."""
    world = World(Stage.DECODE, waiting)
    async with world.working():
        await settled()
    async with world.bus.consume(Stage.DECODE, "default") as rival:
        assert (await taken(rival)).deliveries == 2
    assert await world.record() == world.started
