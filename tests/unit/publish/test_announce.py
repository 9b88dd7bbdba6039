"""Public events: one for each state and attempt, with ids by which copies are known."""

from doors import World
from records import NOW, queued_record
from vitascope.contracts import transitions
from vitascope.publish.announce import Announcer
from vitascope.runtime.ports import Stamped


async def test_one_event_for_each_state(world: World) -> None:
    """Whatever else changes in the record, only states and attempts are announced."""
    announcer = Announcer(world.broker.bus, world.time)
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
        await Announcer(world.broker.bus, world.time).handle(stamped)
    assert [f"{stamped.record.id}:0:queued"] == [event.id for _, event in world.broker.bus.events]


async def test_an_ended_job_is_no_longer_remembered(world: World) -> None:
    """The memory of an announcer is as large as the number of live jobs."""
    announcer = Announcer(world.broker.bus, world.time)
    record = queued_record()
    await announcer.handle(Stamped(record, 1))
    await announcer.handle(Stamped(transitions.cancel(record, NOW), 2))
    assert {} == announcer._announced
