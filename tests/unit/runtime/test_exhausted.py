"""Work that ends its process each time leaves no failure to count; the bus's own count ends it."""

import pytest

from records import record_in
from unit.runtime.world import World, settled, succeeding, taken
from vitascope.contracts.failures import FailureCode
from vitascope.contracts.flow import Stage, State
from vitascope.runtime.outcome import MAX_TAKES


async def take_and_die(world: World, times: int) -> None:
    """Consumers that take the event and are gone without a word."""
    await world.ledger.create(world.started)
    await world.bus.publish_work(world.subject(), world.event)
    for _ in range(times):
        async with world.bus.consume(world.stage, "default") as deliveries:
            delivery = await taken(deliveries)
            await delivery.retry(0)  # what the server does by itself after ack_wait


@pytest.mark.parametrize(
    ("state", "took", "dead"),
    [
        pytest.param(State.DECODING, MAX_TAKES - 1, 0, id="one more is allowed"),
        pytest.param(State.FAILED, MAX_TAKES, 1, id="too often"),
    ],
)
async def test_event_taken_too_often_fails_its_job(state: State, took: int, dead: int) -> None:
    """With its stage's code and a dead letter; before that it is simply worked on."""
    world = World(Stage.DECODE, succeeding)
    await take_and_die(world, took)
    async with world.working():
        await settled()
        record = await world.record()
    assert (state, dead) == (record.state, len(world.broker.bus.dead))
    assert not await world.has_work()
    if state is State.FAILED:
        assert record.run.failure is not None
        assert FailureCode.DECODE_FAILED is record.run.failure.code


async def test_finished_work_is_not_failed_however_often_it_comes() -> None:
    """The record is past the stage: the event is only forgotten, and what follows is published."""
    world = World(Stage.DECODE, succeeding)
    await take_and_die(world, MAX_TAKES)
    await world.finish_stage()
    async with world.working():
        await settled()
        assert State.ENCODING is (await world.record()).state
        assert [] == world.broker.bus.dead
        assert await world.has_work(Stage.ENCODE)


async def test_encode_that_waited_for_decode_is_not_to_blame() -> None:
    """Decode was away for hours and the event was handed on again and again: it comes anew once decode is done."""
    world = World(Stage.ENCODE, succeeding, record=record_in(State.DECODING))
    await take_and_die(world, MAX_TAKES)
    async with world.working():
        await settled()
        assert State.DECODING is (await world.record()).state
    assert ([], []) == (world.broker.bus.dead, world.handler.seen)
    assert not await world.has_work()
