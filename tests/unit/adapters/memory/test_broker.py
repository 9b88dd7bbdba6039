"""The broker in memory under held time: what the contract tests can only see by waiting."""

import asyncio

import pytest

from records import NOW, queued_record
from vitascope.adapters.memory import HeldTime, MemoryBroker
from vitascope.contracts.events import CloudEvent, WorkItem
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.flow import Stage
from vitascope.contracts.ids import make_job_id
from vitascope.contracts.pools import GroupRow, GroupState
from vitascope.contracts.subjects import progress_subject, work_subject
from vitascope.runtime.ports import Bus, Delivery, Ledger, Registry


@pytest.fixture
def timing() -> HeldTime:
    return HeldTime()


@pytest.fixture
def broker(timing: HeldTime) -> MemoryBroker:
    return MemoryBroker(timing=timing)


async def publish(broker: MemoryBroker, event: CloudEvent | None = None) -> CloudEvent:
    event = event or WorkItem(job=make_job_id(NOW), tenant="t", attempt=1, stage=Stage.ENCODE).to_event(NOW)
    await broker.bus.publish_work(work_subject(Stage.ENCODE, "p", str(event.subject)), event)
    return event


async def settle(task: asyncio.Task[Delivery]) -> bool:
    """Let everything run that can; whether the task is done then."""
    for _ in range(20):
        await asyncio.sleep(0)
    return task.done()


def test_ports_are_the_ports(broker: MemoryBroker) -> None:
    """The types of the attributes are the protocols; checked by mypy, used here."""
    ports: tuple[Ledger, Bus, Registry] = broker.ledger, broker.bus, broker.registry
    assert 3 == len(ports)


async def test_unfinished_delivery_moves_after_ack_wait(broker: MemoryBroker, timing: HeldTime) -> None:
    """At 29 s it is left alone, at 30 s it goes to somebody else, and its first holder's ack still ends it."""
    event = await publish(broker)
    async with broker.bus.consume(Stage.ENCODE, "p") as mine, broker.bus.consume(Stage.ENCODE, "p") as others:
        first = await anext(mine)
        waiting = asyncio.ensure_future(anext(others))
        timing.advance(29)
        assert not await settle(waiting)
        timing.advance(1)
        assert await settle(waiting)
        second = waiting.result()
        assert (event, 2) == (second.event, second.deliveries)
        await first.ack()
        assert not await broker.bus.has_work(work_subject(Stage.ENCODE, "p", str(event.subject)))


async def test_beats_keep_it(broker: MemoryBroker, timing: HeldTime) -> None:
    """Each beat gives 30 s more."""
    await publish(broker)
    async with broker.bus.consume(Stage.ENCODE, "p") as mine, broker.bus.consume(Stage.ENCODE, "p") as others:
        delivery = await anext(mine)
        waiting = asyncio.ensure_future(anext(others))
        for _ in range(10):
            timing.advance(20)
            assert not await settle(waiting)
            await delivery.beat()
        timing.advance(30)
        assert await settle(waiting)


async def test_retry_waits_for_its_delay_and_no_longer_than_30_s(broker: MemoryBroker, timing: HeldTime) -> None:
    """A retry of an hour is one of 30 s."""
    await publish(broker)
    async with broker.bus.consume(Stage.ENCODE, "p") as deliveries:
        await (await anext(deliveries)).retry(3600)
        waiting = asyncio.ensure_future(anext(deliveries))
        timing.advance(29.9)
        assert not await settle(waiting)
        timing.advance(0.1)
        assert await settle(waiting)


async def test_copy_is_taken_after_the_window(broker: MemoryBroker, timing: HeldTime) -> None:
    """Ten minutes later nobody remembers the id."""
    event = await publish(broker)
    async with broker.bus.consume(Stage.ENCODE, "p") as deliveries:
        await (await anext(deliveries)).ack()
        timing.advance(599)
        await publish(broker, event)
        waiting = asyncio.ensure_future(anext(deliveries))
        assert not await settle(waiting)
        timing.advance(1)
        await publish(broker, event)
        assert await settle(waiting)


async def test_row_vanishes_after_the_lease(broker: MemoryBroker, timing: HeldTime) -> None:
    """A group that is silent for 15 s is not there; one that renews is."""
    row = GroupRow(pool="p", group="g", models=(), state=GroupState.IDLE, holder="h", seen=NOW)
    await broker.registry.put_group(row)
    timing.advance(14)
    await broker.registry.put_group(row)
    timing.advance(14)
    assert [row] == await broker.registry.get_groups()
    timing.advance(1)
    assert [] == await broker.registry.get_groups()


async def test_lease_ends_with_its_time(broker: MemoryBroker, timing: HeldTime) -> None:
    """Renewed leases go on, others are free when their time is over."""
    assert await broker.registry.acquire_lease("scheduler", "a", 4)
    timing.advance(3)
    assert await broker.registry.acquire_lease("scheduler", "a", 4)
    timing.advance(3.9)
    assert not await broker.registry.acquire_lease("scheduler", "b", 4)
    timing.advance(0.1)
    assert await broker.registry.acquire_lease("scheduler", "b", 4)


async def test_outage_stops_everything_and_loses_nothing(broker: MemoryBroker) -> None:
    """While the broker is away calls raise, consumers get nothing; afterwards all goes on."""
    stamped = await broker.ledger.create(queued_record())
    event = await publish(broker)
    async with broker.bus.consume(Stage.ENCODE, "p") as deliveries:
        broker.set_connected(connected=False)
        waiting = asyncio.ensure_future(anext(deliveries))
        assert not await settle(waiting)
        assert not broker.bus.is_connected()
        calls = (broker.ledger.get("x"), broker.registry.get_groups(), broker.bus.has_work("x"), publish(broker))
        for call in calls:
            with pytest.raises(VitascopeError) as caught:
                await call
            assert FailureCode.BUS_UNAVAILABLE is caught.value.code
        broker.set_connected(connected=True)
        assert await settle(waiting)
        assert event == waiting.result().event
    assert stamped == await broker.ledger.get(stamped.record.id)


async def test_public_events_and_dead_letters_can_be_read(broker: MemoryBroker) -> None:
    """A test sees what was published, without copies."""
    event = CloudEvent(id="1", source="s", type="t")
    await broker.bus.publish_event("vitascope.events.a", event)
    await broker.bus.publish_event("vitascope.events.a", event)
    await broker.bus.publish_dead("vitascope.dead.a", event)
    assert [("vitascope.events.a", event)] == broker.bus.events
    assert [("vitascope.dead.a", event)] == broker.bus.dead


async def test_watch_ends_with_its_context(broker: MemoryBroker) -> None:
    """A reader that is still waiting when the context is left is let go."""
    async with broker.bus.watch_progress(progress_subject("t", "j")) as news:
        waiting = asyncio.ensure_future(anext(news, None))
        await asyncio.sleep(0)
    assert await asyncio.wait_for(waiting, 1) is None


def test_held_time_is_a_clock(timing: HeldTime) -> None:
    """The time of day moves with it."""
    before = timing.now()
    timing.advance(1.5)
    assert 1.5 == (timing.now() - before).total_seconds()


async def test_broker_that_loses_everything_begins_anew(broker: MemoryBroker, timing: HeldTime) -> None:
    """Records, work, keys, rows and leases are gone and the birth is later; revisions rise, consumers go on."""
    first = await broker.ledger.create(queued_record())
    birth = await broker.ledger.get_birth()
    await broker.ledger.remember("t", "k", b"v")
    row = GroupRow(pool="p", group="g", models=(), state=GroupState.IDLE, holder="h", seen=NOW)
    await broker.registry.put_group(row)
    assert await broker.registry.acquire_lease("scheduler", "a", 60)
    event = await publish(broker)
    timing.advance(1)
    async with broker.bus.consume(Stage.ENCODE, "q") as deliveries, broker.ledger.watch() as news:
        while await anext(news) is not None:
            pass
        broker.lose()
        assert 1 == (await broker.ledger.get_birth() - birth).total_seconds()
        assert await broker.ledger.get(first.record.id) is None
        assert await broker.ledger.remember("t", "k", b"w") is None
        assert ([], []) == (await broker.registry.get_groups(), await broker.bus.list_work())
        assert await broker.registry.acquire_lease("scheduler", "b", 60)
        again = await broker.ledger.create(first.record)
        assert again.revision > first.revision
        assert again == await anext(news)
        await broker.bus.publish_work(work_subject(Stage.ENCODE, "q", str(event.subject)), event)
        assert event == (await anext(deliveries)).event
