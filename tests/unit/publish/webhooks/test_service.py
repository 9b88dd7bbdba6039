"""The whole process in memory: events in, messages out, one at work."""

import asyncio

import pytest

from hooks import URL, event_of, job_event
from records import NOW, record_in
from unit.publish.webhooks.world import HookWorld, running, until
from vitascope.contracts.flow import State
from vitascope.publish.webhooks import WebhookService, service
from vitascope.publish.webhooks.service import LEASE_NAME, LEASE_S


@pytest.fixture(autouse=True)
def _quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "LOOK_S", 0.0)


async def test_event_becomes_a_message(hooks: HookWorld) -> None:
    """Of every job one, however often its end is announced."""
    await hooks.subscribe()
    record = record_in(State.SUCCEEDED)
    async with running(WebhookService(hooks.make_deps()).run):
        await hooks.publish(event_of(record, 3))
        await until(lambda: len(hooks.receivers.sent) == 1)
        hooks.broker.bus._event_ids.clear()
        await hooks.publish(event_of(record, 4))
        await hooks.publish(job_event())
        await until(lambda: len(hooks.receivers.sent) == 2)
    assert f"{record.id}:1:succeeded" == hooks.receivers.sent[0].id
    assert 1 == hooks.receivers.list_sent(URL).count(hooks.receivers.sent[0].id)


async def test_one_is_at_work(hooks: HookWorld) -> None:
    """The other takes over when the lease is given back, and nothing is sent twice."""
    await hooks.subscribe()
    first, second = (WebhookService(hooks.make_deps(holder)) for holder in ("here:1", "here:2"))
    async with running(second.run):
        await hooks.publish(job_event())
        await until(lambda: len(hooks.receivers.sent) == 1)
        async with running(first.run):
            for _ in range(50):
                await asyncio.sleep(0)
            assert "here:2" == hooks.broker.registry._leases[LEASE_NAME].holder
    async with running(first.run):
        await hooks.publish(job_event())
        await until(lambda: len(hooks.receivers.sent) == 2)
        assert "here:1" == hooks.broker.registry._leases[LEASE_NAME].holder
    assert LEASE_NAME not in hooks.broker.registry._leases


async def test_lost_lease_ends_the_work(hooks: HookWorld) -> None:
    """Whoever has been away for too long does not go on beside his successor."""
    await hooks.subscribe()
    async with running(WebhookService(hooks.make_deps()).run):
        await hooks.publish(job_event(now=NOW))
        await until(lambda: len(hooks.receivers.sent) == 1)
        hooks.time.advance(LEASE_S)
        assert await hooks.broker.registry.acquire_lease(LEASE_NAME, "there:2", 10 * LEASE_S)
        for _ in range(300):
            await asyncio.sleep(0)
        await hooks.publish(job_event())
        for _ in range(300):
            await asyncio.sleep(0)
        assert 1 == len(hooks.receivers.sent)
