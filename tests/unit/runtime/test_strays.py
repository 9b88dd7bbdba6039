"""Events that nobody can work on: people get them, unless the job is only still to be rebuilt."""

from datetime import datetime, timedelta

import pytest

from records import NOW
from unit.runtime.world import World, raising, settled, succeeding
from vitascope.contracts import subjects
from vitascope.contracts.events import CloudEvent, make_work_item
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.flow import Stage
from vitascope.contracts.ids import JOB_PREFIX, make_job_id
from vitascope.contracts.transitions import StaleAttempt


def dead_letters(world: World) -> list[tuple[str, CloudEvent]]:
    return world.broker.bus.dead


@pytest.mark.parametrize(
    "data",
    [
        None,
        "text",
        {"job": "vj_x"},
        {"job": "{job}", "tenant": "default", "attempt": 1, "stage": "encode"},
        ["x" * 50_000],
    ],
    ids=["empty", "text", "half", "other-stage", "large"],
)
async def test_event_that_is_none_of_this_stage_becomes_a_dead_letter(data: object) -> None:
    """Nobody could ever work on it: people get it, the queue is rid of it, and the job is as it was."""
    world = World(Stage.DECODE, succeeding)
    if isinstance(data, dict):
        data = {key: world.started.id if value == "{job}" else value for key, value in data.items()}
    bad = CloudEvent.model_validate({"id": "bad", "source": "/test", "type": "x", "data": data})
    async with world.working(event=bad):
        await settled()
        assert not await world.has_work()
    assert world.handler.seen == []
    assert await world.record() == world.started
    assert [subject for subject, _ in dead_letters(world)] == ["vitascope.dead.decode.unknown"]


@pytest.mark.parametrize(
    "made", [pytest.param(NOW + timedelta(hours=1), id="under this ledger"), pytest.param(None, id="by nobody")]
)
@pytest.mark.parametrize("error", [VitascopeError(FailureCode.NOT_FOUND), StaleAttempt()], ids=["failed", "stale"])
async def test_event_of_a_job_that_does_not_exist_becomes_a_dead_letter(
    made: datetime | None, error: Exception
) -> None:
    """A failure that no record can hold is not repeated for ever."""
    world = World(Stage.DECODE, raising(error))
    job = f"{JOB_PREFIX}{'Z' * 26}" if made is None else make_job_id(made)
    event = make_work_item(world.started.model_copy(update={"id": job}), Stage.DECODE).to_event(NOW)
    async with world.working(event=event):
        await settled()
        assert not await world.has_work()
    assert [subject for subject, _ in dead_letters(world)] == [subjects.dead_subject(Stage.DECODE, job)]


async def test_event_of_a_job_that_is_still_to_be_rebuilt_is_no_dead_letter() -> None:
    """The ledger was lost while its stage waited for a server: the record comes back, so the event does, too."""
    world = World(Stage.DECODE, raising(StaleAttempt()))
    lost = world.started.model_copy(update={"id": make_job_id(world.time.now())})
    async with world.working(event=make_work_item(lost, Stage.DECODE).to_event(NOW)):
        await settled()
        assert [] == dead_letters(world)
        assert await world.has_work()
