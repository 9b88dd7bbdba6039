"""From events to deliveries: whom an event concerns, and that it is told once."""

from datetime import timedelta

import pytest

from hooks import LIFE, delivery, event_of, job_event
from records import NOW, queued_record, record_in
from unit.publish.webhooks.world import HookWorld, running, until
from vitascope.adapters.memory import MemoryBroker
from vitascope.contracts import transitions
from vitascope.contracts.deliveries import DeliveryState
from vitascope.contracts.events import CloudEvent
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.flow import State
from vitascope.contracts.jobs import JobRecord
from vitascope.contracts.webhooks import CALLBACK, JOB_EVENTS
from vitascope.publish.webhooks import fanout
from vitascope.publish.webhooks.fanout import FanOut
from vitascope.runtime.tenant_index import TenantIndex

HOUR = timedelta(hours=1)
CALLBACK_URL = "https://example.com/job"


def make_fan_out(hooks: HookWorld, index: TenantIndex, pending: int = 0) -> FanOut:
    broker: MemoryBroker = hooks.broker
    return FanOut(
        broker.events,
        hooks.book,
        index,
        broker.ledger,
        clock=hooks.time,
        life=LIFE,
        count_pending=lambda _tenant, _target: pending,
    )


async def handle(hooks: HookWorld, *events: CloudEvent, pending: int = 0) -> None:
    index = TenantIndex(hooks.tenants)
    fan_out = make_fan_out(hooks, index, pending)
    async with running(index.run):
        for event in events:
            await fan_out.handle(event)


async def job_with_callback(hooks: HookWorld) -> JobRecord:
    record = queued_record()
    admission = record.admission.model_copy(update={"callback_url": CALLBACK_URL})
    record = record.model_copy(update={"admission": admission})
    await hooks.broker.ledger.create(record)
    return record


async def test_who_asked_is_told(hooks: HookWorld) -> None:
    """Of the events it asked for, and of no others."""
    asks = [await hooks.subscribe(events=events) for events in (("job.succeeded",), ("job.failed",), JOB_EVENTS)]
    event = job_event()
    await handle(hooks, event)
    expected = [[delivery(row.id, event)] if "job.succeeded" in row.events else [] for row in asks]
    assert expected == [await hooks.list_all(row.id) for row in asks]


async def test_only_how_jobs_end_is_told_if_nothing_is_said(hooks: HookWorld) -> None:
    """One message a job."""
    row = await hooks.subscribe()
    states = (State.QUEUED, State.RUNNING, State.DECODING, State.ENCODING, State.SUCCEEDED, State.EXPIRED)
    await handle(hooks, *(job_event(state) for state in states))
    assert ["job.succeeded"] == [made.event for made in await hooks.list_all(row.id)]


async def test_an_event_that_comes_twice_is_told_once(hooks: HookWorld) -> None:
    """Also if it was announced anew in between, and told already."""
    row, record = await hooks.subscribe(), record_in(State.SUCCEEDED)
    await handle(hooks, event_of(record, 3))
    (made,) = await hooks.list_all(row.id)
    await hooks.courier.carry(made.place, lambda: False)
    await handle(hooks, event_of(record, 3), event_of(record, 9, NOW + HOUR))
    assert [DeliveryState.DELIVERED] == [told.state for told in await hooks.list_all(row.id)]


async def test_what_was_before_a_webhook_is_not_told(hooks: HookWorld) -> None:
    """Nobody gets the history of a week at once."""
    row = await hooks.subscribe(now=NOW + HOUR)
    await handle(hooks, job_event(), job_event(now=NOW + HOUR))
    assert 1 == len(await hooks.list_all(row.id))


async def test_disabled_webhook_is_told_nothing(hooks: HookWorld) -> None:
    """Nothing waits for the day on which it is enabled."""
    row = await hooks.subscribe(disabled="It was switched off.")
    await handle(hooks, job_event())
    assert [] == await hooks.list_all(row.id)


async def test_others_are_told_nothing(hooks: HookWorld) -> None:
    """An event belongs to one tenant."""
    row = await hooks.subscribe()
    await handle(hooks, job_event(tenant="acme"))
    assert [] == await hooks.list_all(row.id)


@pytest.mark.parametrize(
    "event",
    [
        CloudEvent(id="1", source="/vitascope/scheduler", type="dev.vitascope.job.failed.v1", subject="x"),
        CloudEvent(id="2", source="/vitascope/tenants/default/jobs", type="dev.vitascope.job.failed.v1"),
        job_event().model_copy(update={"type": "dev.vitascope.other.v1"}),
        job_event().model_copy(update={"source": "/vitascope/tenants"}),
    ],
    ids=["no tenant", "no job", "unknown type", "short source"],
)
async def test_events_that_concern_nobody(hooks: HookWorld, event: CloudEvent) -> None:
    """They are passed over, and stop nothing."""
    row = await hooks.subscribe(events=JOB_EVENTS)
    await handle(hooks, event, job_event())
    assert 1 == len(await hooks.list_all(row.id))


async def test_callback_of_a_job_is_told_how_it_ended(hooks: HookWorld) -> None:
    """At the address that its record has; not what came before."""
    record = await job_with_callback(hooks)
    ended = transitions.cancel(record, NOW)
    await handle(hooks, event_of(record, 1), event_of(ended, 2))
    assert [delivery(CALLBACK, event_of(ended, 2), url=CALLBACK_URL)] == await hooks.list_all(CALLBACK)


async def test_callback_of_a_forgotten_job_is_dropped(hooks: HookWorld) -> None:
    """Its address is gone with the record."""
    record = await job_with_callback(hooks)
    stamped = await hooks.broker.ledger.get(record.id)
    assert stamped is not None
    await hooks.broker.ledger.forget(stamped)
    await handle(hooks, event_of(transitions.cancel(record, NOW), 2))
    assert [] == await hooks.list_all(CALLBACK)


async def test_backlog_is_bounded(hooks: HookWorld) -> None:
    """What is too much is in the log, as dead, and can be replayed."""
    row = await hooks.subscribe()
    await handle(hooks, job_event(), pending=fanout.MAX_BACKLOG - 1)
    await handle(hooks, job_event(now=NOW + HOUR), pending=fanout.MAX_BACKLOG)
    assert [DeliveryState.PENDING, DeliveryState.DEAD] == [made.state for made in await hooks.list_all(row.id)]


async def test_events_are_acknowledged_once_their_deliveries_are_stored(hooks: HookWorld) -> None:
    """Through an outage between the two, nothing is lost and nothing told twice."""
    row, index = await hooks.subscribe(), TenantIndex(hooks.tenants)
    fan_out, failures = make_fan_out(hooks, index), 3
    add = hooks.book.add

    async def fail_first(made: object) -> bool:
        nonlocal failures
        failures -= 1
        if failures >= 0:
            raise VitascopeError(FailureCode.BUS_UNAVAILABLE)
        return await add(made)  # type: ignore[arg-type]  # what the real one is given

    hooks.book.add = fail_first  # type: ignore[method-assign]
    async with running(index.run, fan_out.run):
        await hooks.publish(job_event())
        await until(lambda: failures < 0)
        await hooks.publish(job_event(now=NOW + HOUR))
        await until(lambda: failures < -1)
    assert 2 == len(await hooks.list_all(row.id))
    async with hooks.broker.events.consume(limit=9) as events:
        await hooks.publish(job_event())
        assert "vj_" == (await anext(events)).event.id[:3]
        assert 1 == len(hooks.broker.events._held), "nothing older was left"


async def test_webhook_that_is_a_moment_old_is_told(hooks: HookWorld) -> None:
    """A job that is made right after its webhook is not missed, though the two come on different ways."""
    index = TenantIndex(hooks.tenants)
    fan_out = make_fan_out(hooks, index)
    async with running(index.run):
        await index.catch_up()
        row = await hooks.subscribe()
        await fan_out.handle(job_event())
    assert 1 == len(await hooks.list_all(row.id))
