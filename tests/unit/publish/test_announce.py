"""Public events: one for each state and attempt, with ids by which copies are known."""

import pytest

from doors import World
from records import NOW, queued_record
from vitascope.contracts import transitions
from vitascope.contracts.failures import VitascopeError
from vitascope.contracts.jobs import JobRecord
from vitascope.contracts.objects import record_key
from vitascope.publish.announce import Announcer
from vitascope.publish.copies import Copier
from vitascope.runtime.ports import Stamped


def _make(world: World) -> Announcer:
    return Announcer(world.broker.bus, world.time, Copier(world.broker.ledger, world.store))


async def test_one_event_for_each_state(world: World) -> None:
    """Whatever else changes in the record, only states and attempts are announced."""
    announcer = _make(world)
    record = queued_record()
    running = transitions.start(record, "g0", NOW)
    noted = running.model_copy(update={"run": running.run.model_copy(update={"failures": 1})})
    back = transitions.requeue(noted, 1, "lost")
    again = transitions.start(back, "g1", NOW)
    cancelled = transitions.cancel(again, NOW)
    for revision, changed in enumerate((record, running, noted, back, again, cancelled), 10):
        await announcer.handle(Stamped(changed, revision))
    told = [(event.id.partition(":")[2], event.type) for _, event in world.broker.bus.events]
    assert [
        ("0:queued", "dev.vitascope.job.queued.v1"),
        ("1:running", "dev.vitascope.job.running.v1"),
        ("1:queued", "dev.vitascope.job.queued.v1"),
        ("2:running", "dev.vitascope.job.running.v1"),
        ("2:cancelled", "dev.vitascope.job.cancelled.v1"),
    ] == told
    subjects = {subject for subject, _ in world.broker.bus.events}
    assert f"vitascope.events.default.{record.id}.job.cancelled.v1" in subjects


async def test_a_copy_has_the_same_id(world: World) -> None:
    """Two announcers tell one state: the stream keeps one event."""
    stamped = Stamped(queued_record(), 4)
    for _ in range(2):
        await _make(world).handle(stamped)
    assert [f"{stamped.record.id}:0:queued"] == [event.id for _, event in world.broker.bus.events]


async def test_an_ended_job_is_no_longer_remembered(world: World) -> None:
    """The memory of an announcer is as large as the number of live jobs."""
    announcer = _make(world)
    record = queued_record()
    await announcer.handle(Stamped(record, 1))
    await announcer.handle(Stamped(transitions.cancel(record, NOW), 2))
    assert {} == announcer._announced


async def test_an_end_is_announced_once_its_copy_is_stored(world: World) -> None:
    """While the store is away the end may still be lost with the ledger; what is alive is announced all the same."""
    announcer, ended = _make(world), transitions.cancel(queued_record(), NOW)
    world.store.is_away = True
    await announcer.handle(Stamped(queued_record(), 1))
    with pytest.raises(VitascopeError):
        await announcer.handle(Stamped(ended, 2))
    assert 1 == len(world.broker.bus.events)
    world.store.is_away = False
    await announcer.handle(Stamped(ended, 2))
    assert ["queued", "cancelled"] == [event.type.split(".")[-2] for _, event in world.broker.bus.events]
    assert ended == JobRecord.from_bytes(world.store.objects[record_key(ended)])
