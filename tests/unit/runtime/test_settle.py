"""What each end of a run does to the record, the work that is left and the dead letters."""

import asyncio
from datetime import timedelta
from typing import cast

import pytest

from records import NOW, record_in
from unit.runtime.world import World, raising, settled, succeeding, taken
from vitascope.adapters.memory.broker import MemoryBroker
from vitascope.contracts import subjects, transitions
from vitascope.contracts.events import CloudEvent, WorkItem, make_work_item
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.flow import Stage, State
from vitascope.contracts.jobs import JobRecord
from vitascope.contracts.transitions import StaleAttempt
from vitascope.runtime import stage_run
from vitascope.runtime.advance import advance
from vitascope.runtime.outcome import MAX_TAKES
from vitascope.runtime.ports import Conflict, Ledger, Stamped
from vitascope.runtime.stage import HandBack, Pulse


def dead_letters(world: World) -> list[tuple[str, CloudEvent]]:
    return world.broker.bus.dead


# ---- moved on -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("stage", "following"), [(Stage.DENOISE, Stage.DECODE), (Stage.DECODE, Stage.ENCODE)])
async def test_redelivery_after_a_crash_publishes_the_next_event(stage: Stage, following: Stage) -> None:
    """The record moved on and the process died before it published: the second run does what was left."""
    world = World(stage, raising(StaleAttempt()))
    await world.ledger.create(world.started)
    moved = await world.finish_stage()
    async with world.working():
        await settled()
        assert not await world.has_work()
        async with world.bus.consume(following, "default") as next_work:
            assert (await taken(next_work)).event.id == make_work_item(moved, following).message_id
    assert await world.record() == moved


async def test_copy_of_an_event_causes_no_second_encode() -> None:
    """The next event that is published again has the id of the first, so the bus knows the copy."""
    world = World(Stage.DECODE, raising(StaleAttempt()))
    await world.ledger.create(world.started)
    moved = await world.finish_stage()
    encode_event = make_work_item(moved, Stage.ENCODE).to_event(NOW)
    await world.bus.publish_work(world.subject(Stage.ENCODE), encode_event)
    async with world.bus.consume(Stage.ENCODE, "default") as encode_work:
        await (await taken(encode_work)).ack()
    async with world.working():
        await settled()
        assert not await world.has_work(Stage.ENCODE)


async def test_event_of_an_old_attempt_is_dropped() -> None:
    """A later attempt owns the job: nothing is published in the name of the old one."""
    world = World(Stage.DENOISE, raising(StaleAttempt()))
    await world.ledger.create(world.started)
    await advance(world.ledger, world.started.id, lambda record: transitions.requeue(record, 1, "preempted"))
    restarted = await advance(world.ledger, world.started.id, lambda record: transitions.start(record, "g1", NOW))
    async with world.working():
        await settled()
        assert not await world.has_work()
        assert not await world.has_work(Stage.DECODE)
    assert await world.record() == restarted.record


async def test_stale_said_of_work_that_is_still_wanted_loses_nothing() -> None:
    """The handler was mistaken: the record stands where the work begins, so the event stays and comes again."""
    world = World(Stage.DECODE, raising(StaleAttempt()), succeeding)
    async with world.working():
        await settled()
        assert await world.has_work()
        assert not await world.has_work(Stage.ENCODE)
        await world.pass_time(1)
        assert not await world.has_work()
    assert len(world.handler.seen) == 2


async def test_next_event_is_not_published_for_a_job_that_is_further_on() -> None:
    """Denoise that comes again while the job encodes does not start a second decode."""
    world = World(Stage.DENOISE, raising(StaleAttempt()))
    await world.ledger.create(world.started)
    await world.finish_stage()
    await advance(
        world.ledger,
        world.started.id,
        lambda record: transitions.finish_decode(record, 1, chunks=5, stage_s=1.0, now=NOW),
    )
    async with world.working():
        await settled()
        assert not await world.has_work()
        assert not await world.has_work(Stage.DECODE)


# ---- handed back, waiting -------------------------------------------------------------------------------------------
async def test_handed_back_work_comes_again_at_once() -> None:
    """No pause and no count: the work did not fail."""
    world = World(Stage.DECODE, raising(HandBack()), succeeding)
    async with world.working():
        await settled()
        assert not await world.has_work()
    assert len(world.handler.seen) == 2
    assert await world.record() == world.started


@pytest.mark.parametrize(
    "code",
    [
        FailureCode.BUS_UNAVAILABLE,
        FailureCode.STORE_UNAVAILABLE,
        FailureCode.STORE_FULL,
        FailureCode.SERVICE_UNAVAILABLE,
    ],
)
async def test_outage_is_waited_out_and_not_counted(code: FailureCode, monkeypatch: pytest.MonkeyPatch) -> None:
    """More outages than a job may have failures or deliveries: each waits longer, and the job is as good as new."""
    waited: list[int] = []

    def note(tries: int) -> float:
        waited.append(tries)
        return 0.0

    monkeypatch.setattr(stage_run, "compute_delay_s", note)
    outages = 2 * MAX_TAKES
    world = World(Stage.DENOISE, *[raising(VitascopeError(code))] * outages, succeeding)
    async with world.working(), asyncio.timeout(10):
        while await world.has_work():  # noqa: ASYNC110 (pauses of no length still end by the real clock)
            await asyncio.sleep(0.01)
    assert list(range(1, outages + 1)) == waited
    assert outages + 1 == len(world.handler.seen)
    assert await world.record() == world.started


async def test_work_that_waits_for_a_server_is_handed_back_when_the_process_ends() -> None:
    """The wait ends at once, and the event comes again elsewhere."""
    world = World(Stage.DECODE, raising(VitascopeError(FailureCode.STORE_UNAVAILABLE)))
    async with world.working() as loop:
        await settled()
        async with asyncio.timeout(5):
            await loop.drain(grace_s=30)
        assert await world.has_work()
    assert 1 == len(world.handler.seen)


# ---- failures -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("stage", "code"),
    [(Stage.DECODE, FailureCode.DECODE_FAILED), (Stage.ENCODE, FailureCode.ENCODE_FAILED)],
)
async def test_three_failures_end_in_a_dead_letter(stage: Stage, code: FailureCode) -> None:
    """Counted in the record, spaced, and then the job fails with its code and people get the event."""
    world = World(stage, raising(VitascopeError(code, "Tile 3.")))
    async with world.working():
        await settled()
        assert (await world.record()).run.failures == 1
        assert (await world.record()).run.reason is not None
        await world.pass_time(1)
        assert (await world.record()).run.failures == 2
        await world.pass_time(4.99)
        assert len(world.handler.seen) == 2
        assert dead_letters(world) == []
        await world.pass_time(0.01)
        assert not await world.has_work()
    record = await world.record()
    assert record.state is State.FAILED
    assert record.run.failure is not None
    assert (record.run.failure.code, record.run.failure.stage) == (code, stage)
    assert "Tile 3." in record.run.failure.message
    ((subject, letter),) = dead_letters(world)
    assert subject == subjects.dead_subject(stage, record.id)
    assert letter.data == {
        "event": world.event.model_dump(mode="json"),
        "error": record.run.failure.model_dump(mode="json"),
        "attempts": 3,
    }


async def test_failed_denoise_goes_back_to_the_queue() -> None:
    """Denoise is tried again by dispatch, not by redelivery: later, counted, and on any group."""
    world = World(Stage.DENOISE, raising(VitascopeError(FailureCode.DENOISE_FAILED)))
    async with world.working():
        await settled()
        assert not await world.has_work()
    run = (await world.record()).run
    assert (run.state, run.failures, run.group) == (State.QUEUED, 1, None)
    assert run.not_before == world.time.now() + timedelta(seconds=1)
    assert dead_letters(world) == []


async def test_third_failed_denoise_fails_the_job() -> None:
    """The count survives the queue and the attempts."""
    record = record_in(State.RUNNING)
    for attempt in (1, 2):
        record = transitions.requeue(record, attempt, "failed", failed=True)
        record = transitions.start(record, "g0", NOW)
    world = World(Stage.DENOISE, raising(RuntimeError()), record=record)
    async with world.working():
        await settled()
        assert not await world.has_work()
    assert (await world.record()).state is State.FAILED
    assert len(dead_letters(world)) == 1


async def test_hopeless_failure_is_not_tried_again() -> None:
    """A terminal code fails the job at the first time; it is nobody's puzzle, so there is no dead letter."""
    world = World(Stage.DECODE, raising(VitascopeError(FailureCode.OBJECT_MISSING)))
    async with world.working():
        await settled()
        assert not await world.has_work()
    failure = (await world.record()).run.failure
    assert failure is not None
    assert failure.code is FailureCode.OBJECT_MISSING
    assert len(world.handler.seen) == 1
    assert dead_letters(world) == []


@pytest.mark.parametrize("stage", Stage)
async def test_unexpected_error_shows_only_its_class(stage: Stage) -> None:
    """Whatever a library says stays in the log: paths, addresses and prompts do not reach a client."""
    world = World(stage, raising(RuntimeError("/srv/secret/path")))
    async with world.working():
        await settled()
    reason = (await world.record()).run.reason
    assert reason is not None
    assert "(RuntimeError)" in reason
    assert "secret" not in reason
    assert (await world.record()).run.failures == 1


async def test_out_of_memory_is_named() -> None:
    """An out-of-memory of denoise is terminal and has its own code, whichever library raised it."""
    torch_like = type("OutOfMemoryError", (RuntimeError,), {})
    world = World(Stage.DENOISE, raising(torch_like("CUDA out of memory")))
    async with world.working():
        await settled()
    failure = (await world.record()).run.failure
    assert failure is not None
    assert failure.code is FailureCode.DENOISE_OUT_OF_MEMORY


@pytest.mark.parametrize(
    "error",
    [RuntimeError(), VitascopeError(FailureCode.OBJECT_MISSING), VitascopeError(FailureCode.CANCELLED), StaleAttempt()],
    ids=["unexpected", "terminal", "cancelled", "stale"],
)
async def test_cancelled_meanwhile_ends_quietly(error: Exception) -> None:
    """However the handler comes to its end: the job stays cancelled and nothing is left."""
    world = World(Stage.DECODE)

    async def be_cancelled(_work: WorkItem, _pulse: Pulse) -> None:
        await world.cancel_job()
        raise error

    world.handler.script.append(be_cancelled)
    async with world.working():
        await settled()
        assert not await world.has_work()
    record = await world.record()
    assert (record.state, record.run.failures, record.run.failure) == (State.CANCELLED, 0, None)
    assert dead_letters(world) == []


async def test_failure_of_a_second_run_does_not_undo_the_first() -> None:
    """Two processes decoded the same job; the slower one fails after the faster one moved the record on."""
    world = World(Stage.DECODE)

    async def fail_after_the_other(_work: WorkItem, _pulse: Pulse) -> None:
        await world.finish_stage()
        raise VitascopeError(FailureCode.OBJECT_MISSING)

    world.handler.script.append(fail_after_the_other)
    async with world.working():
        await settled()
        assert not await world.has_work()
    record = await world.record()
    assert (record.state, record.run.failures) == (State.ENCODING, 0)


async def test_failure_is_counted_past_a_rival_change() -> None:
    """Somebody else changes the record between reading and writing: the count is not lost and nor is the change."""
    world = World(Stage.DECODE, raising(RuntimeError()))
    world.ledger = cast("Ledger", _RivalLedger(world.broker))
    async with world.working():
        await settled()
    assert (await world.record()).run.failures == 2


# ---- outages while settling -----------------------------------------------------------------------------------------
async def test_outcome_that_cannot_be_recorded_is_left_to_redelivery() -> None:
    """The bus is lost while the handler fails: later the event comes again, and the failure is counted once."""
    world = World(Stage.DECODE)

    async def lose_the_bus(_work: WorkItem, _pulse: Pulse) -> None:
        world.broker.set_connected(connected=False)
        raise RuntimeError

    world.handler.script = [lose_the_bus, raising(RuntimeError())]
    async with world.working(limit=2):
        await settled()
        world.broker.set_connected(connected=True)
        assert (await world.record()).run.failures == 0
        await world.pass_time(31)
        assert (await world.record()).run.failures == 1
    assert len(world.handler.seen) == 2


async def test_dead_letter_that_was_lost_is_written_by_the_next_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process dies between failing the job and writing the letter: the redelivery still writes it."""
    record = record_in(State.DECODING)
    for _ in range(2):
        record = transitions.note_failure(record, 1, Stage.DECODE, "failed")
    world = World(Stage.DECODE, raising(RuntimeError()), raising(StaleAttempt()), record=record)
    real, lost = world.broker.bus.publish_dead, []

    async def lose_the_first(subject: str, event: CloudEvent) -> None:
        if not lost:
            lost.append(event)
            raise VitascopeError(FailureCode.BUS_UNAVAILABLE)
        await real(subject, event)

    monkeypatch.setattr(world.broker.bus, "publish_dead", lose_the_first)
    async with world.working(limit=2):
        await settled()
        assert (await world.record()).state is State.FAILED
        await world.pass_time(31)
        assert not await world.has_work()
    ((_, letter),) = dead_letters(world)
    assert letter.id == lost[0].id


@pytest.mark.parametrize("part", ["handler and record", "record"])
async def test_process_that_could_not_record_an_outcome_goes_on(part: str) -> None:
    """Its only place is free again: the event comes again to the same process, and its failure is counted then."""
    world = World(Stage.DECODE)
    real, refusals = world.broker.ledger.get, iter(range(1))

    async def refuse_once(job: str) -> Stamped | None:
        if next(refusals, None) is not None:
            raise VitascopeError(FailureCode.BUS_UNAVAILABLE)
        return await real(job)

    async def lose_the_bus(_work: WorkItem, _pulse: Pulse) -> None:
        if part == "record":
            world.broker.ledger.get = refuse_once  # type: ignore[method-assign] (the ledger of this test alone)
        else:
            world.broker.set_connected(connected=False)
        raise RuntimeError

    world.handler.script = [lose_the_bus, raising(RuntimeError())]
    async with world.working():
        await settled()
        world.broker.set_connected(connected=True)
        await world.pass_time(31)
        assert (await world.record()).run.failures == 1
    assert len(world.handler.seen) == 2


class _RivalLedger:
    """Each first attempt to replace a record finds that somebody noted a failure of their own."""

    def __init__(self, broker: MemoryBroker) -> None:
        self._real, self._is_rival_due = broker.ledger, True
        self.get, self.create = broker.ledger.get, broker.ledger.create

    async def replace(self, current: Stamped, record: JobRecord) -> Stamped:
        if self._is_rival_due:
            self._is_rival_due = False
            rival = transitions.note_failure(current.record, 1, Stage.DECODE, "rival")
            await self._real.replace(current, rival)
            raise Conflict
        return await self._real.replace(current, record)
