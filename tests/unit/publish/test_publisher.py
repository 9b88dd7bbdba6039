"""The publish process: events and copies side by side, each through the outages of its own server."""

import asyncio

import pytest

from doors import World, until
from records import queued_record
from vitascope.contracts import transitions
from vitascope.contracts.jobs import JobRecord
from vitascope.contracts.objects import record_key
from vitascope.publish import Publisher


async def test_an_ended_job_is_copied_and_announced(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store is away at first: what is alive is announced, an end only once it cannot be lost any more."""
    monkeypatch.setattr("vitascope.publish.follow.RETRY_FIRST_S", 0.0)
    world.store.is_away = True
    publisher = Publisher(world.broker.ledger, world.broker.bus, world.store, world.time)
    running = asyncio.create_task(publisher.run())
    stamped = await world.broker.ledger.create(queued_record())
    ended = transitions.cancel(stamped.record, world.time.now())
    await asyncio.sleep(0.01)
    await world.broker.ledger.replace(stamped, ended)
    await until(lambda: len(world.broker.bus.events) == 1)
    assert record_key(ended) not in world.store.objects
    world.store.is_away = False
    await until(lambda: len(world.broker.bus.events) == 2)
    await until(lambda: record_key(ended) in world.store.objects)
    assert ended == JobRecord.from_bytes(world.store.objects[record_key(ended)])
    assert ["queued", "cancelled"] == [event.type.split(".")[-2] for _, event in world.broker.bus.events]
    running.cancel()
    await asyncio.wait({running})
    assert running.cancelled()


async def test_a_live_job_has_a_copy_of_what_it_has_come_to(world: World) -> None:
    """At every change that a rebuild would have to know."""
    running = asyncio.create_task(Publisher(world.broker.ledger, world.broker.bus, world.store, world.time).run())
    stamped = await world.broker.ledger.create(queued_record())
    started = transitions.start(stamped.record, "g0", world.time.now())
    await world.broker.ledger.replace(stamped, started)
    await until(lambda: record_key(started) in world.store.objects)
    assert started == JobRecord.from_bytes(world.store.objects[record_key(started)])
    running.cancel()
    await asyncio.wait({running})
