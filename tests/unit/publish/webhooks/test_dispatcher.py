"""What is pending is tried when it is due, side by side, and through outages."""

import asyncio
from datetime import timedelta

import pytest

from hooks import URL, answer, answer_never, delivery, event_of, subscription
from records import NOW, record_in
from unit.publish.webhooks.world import HookWorld, running, until
from vitascope.contracts.deliveries import DeliveryState
from vitascope.contracts.flow import State
from vitascope.publish.webhooks.dispatcher import Dispatcher
from vitascope.publish.webhooks.schedule import MAX_LANE_OPEN

OTHER_URL = "https://other.example.com/hook"
MINUTE = timedelta(minutes=1)


def make_dispatcher(hooks: HookWorld) -> Dispatcher:
    return Dispatcher(hooks.book, hooks.courier, hooks.time)


async def test_what_was_pending_before_the_start_is_sent(hooks: HookWorld) -> None:
    """And what comes later; each once."""
    row = await hooks.subscribe()
    first, second = delivery(row.id), delivery(row.id, now=NOW + MINUTE, next_try=NOW)
    await hooks.book.add(first)
    async with running(make_dispatcher(hooks).run):
        await until(lambda: len(hooks.receivers.sent) == 1)
        await hooks.book.add(second)
        await until(lambda: len(hooks.receivers.sent) == 2)
    assert [first.event_id, second.event_id] == hooks.receivers.list_sent(URL)


async def test_failed_one_comes_again_in_its_time(hooks: HookWorld) -> None:
    """Not before."""
    row = delivery((await hooks.subscribe()).id)
    await hooks.book.add(row)
    dispatcher = make_dispatcher(hooks)
    hooks.receivers.behaviours[URL] = answer(500)
    async with running(dispatcher.run):
        await until(lambda: not dispatcher._schedule._open and len(hooks.receivers.sent) == 1)
        hooks.time.advance(4)
        dispatcher.poke()
        await turn()
        assert 1 == len(hooks.receivers.sent)
        del hooks.receivers.behaviours[URL]
        hooks.time.advance(1)
        dispatcher.poke()
        await until(lambda: not dispatcher.count_pending("default", row.target))
    assert (DeliveryState.DELIVERED, 2) == ((await hooks.load(row)).state, len(hooks.receivers.sent))


async def test_receiver_that_never_answers_holds_up_nobody(hooks: HookWorld) -> None:
    """Its own deliveries wait, few of them with an open connection; the others arrive."""
    slow, fast = await hooks.subscribe(), await hooks.subscribe(url=OTHER_URL)
    hooks.receivers.behaviours[URL] = answer_never
    for number in range(50):
        for row in (slow, fast):
            await hooks.book.add(delivery(row.id, now=NOW - number * MINUTE))
    dispatcher = make_dispatcher(hooks)
    async with running(dispatcher.run):
        await until(lambda: len(hooks.receivers.list_sent(OTHER_URL)) == 50)
        assert (MAX_LANE_OPEN, 50) == (hooks.receivers.open, dispatcher.count_pending("default", slow.id))


async def test_job_that_has_ended_is_told_nothing_older(hooks: HookWorld) -> None:
    """A state that failed to arrive is superseded by the end, and never sent after it."""
    row = await hooks.subscribe()
    record = record_in(State.RUNNING)
    early = delivery(row.id, event_of(record, 3))
    await hooks.book.add(early)
    hooks.receivers.behaviours[URL] = answer(500)
    dispatcher = make_dispatcher(hooks)
    async with running(dispatcher.run):
        await until(lambda: not dispatcher._schedule._open and len(hooks.receivers.sent) == 1)
        del hooks.receivers.behaviours[URL]
        end = delivery(row.id, event_of(record.model_copy(update={"run": record_in(State.CANCELLED).run}), 4))
        await hooks.book.add(end)
        await until(lambda: not dispatcher.count_pending("default", row.id))
        hooks.time.advance(3600)
        dispatcher.poke()
        await turn()
    assert [early.event_id, end.event_id] == hooks.receivers.list_sent(URL)
    assert [DeliveryState.SUPERSEDED, DeliveryState.DELIVERED] == [
        (await hooks.load(made)).state for made in (early, end)
    ]


async def test_outage_of_the_bus_is_outlived(hooks: HookWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was due meanwhile is sent afterwards."""
    monkeypatch.setattr("vitascope.publish.webhooks.dispatcher.RETRY_S", 0.0)
    row = delivery((await hooks.subscribe()).id, next_try=NOW + MINUTE)
    await hooks.book.add(row)
    dispatcher = make_dispatcher(hooks)
    async with running(dispatcher.run):
        await until(lambda: dispatcher.count_pending("default", row.target) == 1)
        hooks.broker.set_connected(connected=False)
        hooks.time.advance(60)
        dispatcher.poke()
        await turn()
        assert [] == hooks.receivers.sent
        hooks.broker.set_connected(connected=True)
        await until(lambda: len(hooks.receivers.sent) == 1)


async def test_delivery_that_somebody_else_ended_is_forgotten(hooks: HookWorld) -> None:
    """It is not sent, and not counted."""
    row = delivery(subscription().id, next_try=NOW + MINUTE)
    await hooks.book.add(row)
    dispatcher = make_dispatcher(hooks)
    async with running(dispatcher.run):
        await until(lambda: dispatcher.count_pending("default", row.target) == 1)
        await hooks.courier.drop_overtaken(row.place)
        await until(lambda: dispatcher.count_pending("default", row.target) == 0)


async def turn() -> None:
    """Let everything that can go on go on."""
    for _ in range(200):
        await asyncio.sleep(0)
