"""What every book of deliveries promises, and every feed of events."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from contract.real import Ports, RealPorts
from hooks import LIFE, delivery, job_event, subscription
from records import NOW
from vitascope.adapters.jetstream import JetStreamEventFeed
from vitascope.adapters.memory import MemoryBroker
from vitascope.contracts.deliveries import (
    Attempt,
    Delivery,
    DeliveryPlace,
    end_dead,
    note_failure,
    note_success,
    replay,
)
from vitascope.contracts.flow import State
from vitascope.contracts.subjects import event_subject
from vitascope.runtime.deliveries import EventFeed, StampedDelivery
from vitascope.runtime.ports import Conflict
from vitascope.runtime.ports import Delivery as Event

WAIT_S = 20.0
TRIED = Attempt(at=NOW, ms=3, status_code=500)
ARRIVED = Attempt(at=NOW, ms=3, status_code=200)


def fresh(tenant: str, target: str | None = None) -> Delivery:
    return delivery(target or subscription().id, tenant=tenant)


async def load(ports: Ports, row: Delivery) -> StampedDelivery:
    found = await ports.deliveries.get(row.place)
    assert found is not None
    return found


async def watch_mine(ports: Ports, tenant: str, count: int) -> list[Delivery | DeliveryPlace]:
    """The first rows of a tenant that a new watcher gets, whatever others do."""
    rows: list[Delivery | DeliveryPlace] = []
    async with asyncio.timeout(WAIT_S), ports.deliveries.watch() as changes:
        async for row in changes:
            shown = row.delivery if isinstance(row, StampedDelivery) else row
            if shown is not None and shown.tenant == tenant:
                rows.append(shown)
            if len(rows) == count:
                return rows
    raise AssertionError("the feed ended")


async def test_a_delivery_is_added_once(ports: Ports, unique: str) -> None:
    """A copy of the event that made it finds it there, pending or ended."""
    row = fresh(unique)
    assert await ports.deliveries.add(row)
    assert not await ports.deliveries.add(row)
    current = await load(ports, row)
    assert row == current.delivery
    await ports.deliveries.replace(current, note_success(row, ARRIVED, NOW))
    assert not await ports.deliveries.add(row)


async def test_unknown_delivery_is_none(ports: Ports, unique: str) -> None:
    """It says so, and lists nothing."""
    row = fresh(unique)
    assert await ports.deliveries.get(row.place) is None
    assert [] == list(await ports.deliveries.list_ids(unique, row.target))


async def test_tries_are_kept(ports: Ports, unique: str) -> None:
    """A failed try changes the pending delivery, with a new revision."""
    row = fresh(unique)
    await ports.deliveries.add(row)
    current = await load(ports, row)
    tried = note_failure(row, TRIED, NOW, 0.0)
    saved = await ports.deliveries.replace(current, tried)
    assert saved.revision > current.revision
    assert saved == await load(ports, row)


async def test_two_writers_do_not_overwrite_each_other(ports: Ports, unique: str) -> None:
    """Whoever is second is told, whether the delivery goes on or ends."""
    row = fresh(unique)
    await ports.deliveries.add(row)
    current = await load(ports, row)
    tried = note_failure(row, TRIED, NOW, 0.0)
    await ports.deliveries.replace(current, tried)
    with pytest.raises(Conflict):
        await ports.deliveries.replace(current, tried)
    with pytest.raises(Conflict):
        await ports.deliveries.replace(current, note_success(row, ARRIVED, NOW))
    assert tried == (await load(ports, row)).delivery


async def test_ended_delivery_stays_in_the_log(ports: Ports, unique: str) -> None:
    """It is pending no more, is read and listed, and can be changed no more."""
    row = fresh(unique)
    await ports.deliveries.add(row)
    ended = note_success(row, ARRIVED, NOW)
    gone = await load(ports, row)
    await ports.deliveries.replace(gone, ended)
    assert StampedDelivery(ended, 0) == await load(ports, row)
    assert [row.id] == list(await ports.deliveries.list_ids(unique, row.target))
    with pytest.raises(Conflict):
        await ports.deliveries.replace(gone, note_failure(row, TRIED, NOW, 0.0))


async def test_delivery_can_be_dead_from_the_start(ports: Ports, unique: str) -> None:
    """It goes into the log, and nobody is told to send it."""
    row = end_dead(fresh(unique), "Too many.", NOW)
    assert await ports.deliveries.add(row)
    other = fresh(unique)
    await ports.deliveries.add(other)
    assert StampedDelivery(row, 0) == await load(ports, row)
    assert [other] == await watch_mine(ports, unique, 1)


async def test_ended_delivery_can_be_opened_again(ports: Ports, unique: str) -> None:
    """Once; and it can end again."""
    row = fresh(unique)
    await ports.deliveries.add(row)
    dead = end_dead(row, "No.", NOW)
    await ports.deliveries.replace(await load(ports, row), dead)
    again = replay(dead, NOW, LIFE)
    assert await ports.deliveries.reopen(again)
    assert not await ports.deliveries.reopen(again)
    current = await load(ports, row)
    assert again == current.delivery
    assert [row.id] == list(await ports.deliveries.list_ids(unique, row.target))
    done = note_success(again, ARRIVED, NOW)
    await ports.deliveries.replace(current, done)
    assert StampedDelivery(done, 0) == await load(ports, row)


async def test_list_is_of_one_target_of_one_tenant(ports: Ports, unique: str) -> None:
    """The newest jobs first, pending or ended."""
    target = subscription().id
    rows = sorted((fresh(unique, target) for _ in range(3)), key=lambda row: row.id, reverse=True)
    for row in (*rows, fresh(unique), fresh(f"{unique}2", target)):
        await ports.deliveries.add(row)
    await ports.deliveries.replace(await load(ports, rows[1]), end_dead(rows[1], "No.", NOW))
    assert [row.id for row in rows] == list(await ports.deliveries.list_ids(unique, target))


async def test_watcher_sees_what_is_pending_and_what_becomes_of_it(ports: Ports, unique: str) -> None:
    """First all that is pending; then each change, and the place of what has ended."""
    rows = [fresh(unique) for _ in range(2)]
    for row in rows:
        await ports.deliveries.add(row)
    done = fresh(unique)
    await ports.deliveries.add(done)
    await ports.deliveries.replace(await load(ports, done), end_dead(done, "No.", NOW))
    seen: list[object] = []
    async with asyncio.timeout(WAIT_S), ports.deliveries.watch() as changes:
        await read_to_mark(changes, unique, seen)
        assert {row.id for row in rows} == {row.id for row in seen if isinstance(row, Delivery)}
        await ports.deliveries.replace(await load(ports, rows[0]), end_dead(rows[0], "No.", NOW))
        async for row in changes:
            if row == rows[0].place:
                return
    raise AssertionError("the end of a delivery was not told")


async def read_to_mark(
    changes: AsyncIterator[StampedDelivery | DeliveryPlace | None], tenant: str, seen: list[object]
) -> None:
    async for row in changes:
        if row is None:
            return
        if isinstance(row, StampedDelivery) and row.delivery.tenant == tenant:
            seen.append(row.delivery)


# ---- the feed of events ---------------------------------------------------------------------------------------------
def feed_of(ports: Ports) -> EventFeed:
    if isinstance(ports, RealPorts):
        return JetStreamEventFeed(ports.connection)
    assert isinstance(ports, MemoryBroker)
    return ports.events


async def publish(ports: Ports, tenant: str) -> str:
    event = job_event(State.SUCCEEDED)
    event = event.model_copy(update={"id": f"{tenant}:{event.id}"})
    await ports.bus.publish_event(event_subject(tenant, event.subject or "", event.type), event)
    return event.id


async def take_mine(events: AsyncIterator[Event], tenant: str) -> Event:
    async for event in events:
        if event.event.id.startswith(f"{tenant}:"):
            return event
        await event.ack()
    raise AssertionError("the feed ended")


async def test_event_comes_until_it_is_acknowledged(ports: Ports, unique: str) -> None:
    """Handed back, it comes again; left behind by one consumer, it comes to the next."""
    ids = [await publish(ports, unique) for _ in range(2)]
    async with asyncio.timeout(WAIT_S):
        async with feed_of(ports).consume(limit=4) as events:
            first = await take_mine(events, unique)
            second = await take_mine(events, unique)
            assert ids == [first.event.id, second.event.id]
            await first.ack()
            await second.retry(0.0)
            again = await take_mine(events, unique)
            assert (ids[1], 2) == (again.event.id, again.deliveries)
            await again.retry(0.0)
        async with feed_of(ports).consume(limit=4) as events:
            last = await take_mine(events, unique)
            assert ids[1] == last.event.id
            await last.ack()
