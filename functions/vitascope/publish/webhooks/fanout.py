"""From public events to deliveries: who is to be told of what. Any event may come twice; the second adds nothing."""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import timedelta

import structlog

from vitascope.contracts.deliveries import Delivery, end_dead, make_delivery, name_event
from vitascope.contracts.events import CALLBACK_EXTENSION, CloudEvent
from vitascope.contracts.failures import VitascopeError
from vitascope.contracts.ids import is_job_id
from vitascope.contracts.webhooks import CALLBACK, END_EVENTS, JOB_EVENTS, Subscription
from vitascope.runtime.deliveries import DeliveryBook, EventFeed
from vitascope.runtime.ports import Clock, Ledger
from vitascope.runtime.ports import Delivery as Event
from vitascope.runtime.tenant_index import TenantIndex

SHARDS = 16
"""Events of one job keep their order, those of different jobs do not wait for each other."""
MAX_TAKEN = 64
"""Events in hand at once, well below what is handled within an `ack_wait`."""
MAX_BACKLOG = 10_000
"""Pending deliveries of one target. Past that new ones are logged as dead at once: memory and bucket stay bounded."""
RETRY_S = 5.0
"""An event that cannot be handled comes again after so long."""

log = structlog.get_logger(__name__)


class FanOut:
    """Makes a delivery of each event for everybody who asked for it."""

    def __init__(
        self,
        feed: EventFeed,
        book: DeliveryBook,
        tenants: TenantIndex,
        ledger: Ledger,
        *,
        clock: Clock,
        life: timedelta,
        count_pending: Callable[[str, str], int],
    ) -> None:
        """Takes the ports; how long a delivery is tried; and how many of a tenant's target are pending."""
        self._feed, self._book, self._tenants, self._ledger = feed, book, tenants, ledger
        self._clock, self._life, self._count_pending = clock, life, count_pending

    async def run(self) -> None:
        """Handle events until cancelled; none is acknowledged before its deliveries are stored."""
        shards: list[asyncio.Queue[Event]] = [asyncio.Queue(MAX_TAKEN) for _ in range(SHARDS)]
        async with self._feed.consume(limit=MAX_TAKEN) as events, asyncio.TaskGroup() as group:
            for index, shard in enumerate(shards):
                group.create_task(self._work_off(shard), name=f"webhook events {index}")
            await _distribute(events, shards)

    async def handle(self, event: CloudEvent) -> None:
        """Store the deliveries of an event.

        Raises:
            VitascopeError: something cannot be reached; what was stored stays, and is found the next time.
        """
        tenant = _read_tenant(event)
        if tenant is None:
            return
        await self._tenants.catch_up()
        for subscription in self._find_subscriptions(tenant, event):
            await self._add(event, tenant, subscription.id)
        if event.extensions.get(CALLBACK_EXTENSION) and name_event(event.type) in END_EVENTS:
            await self._add_callback(event, tenant)

    async def _work_off(self, shard: "asyncio.Queue[Event]") -> None:
        while True:
            event = await shard.get()
            try:
                await self._handle_once(event)
            except VitascopeError as error:
                log.warning("event not handled yet", event_id=event.event.id, error=str(error))

    async def _handle_once(self, event: Event) -> None:
        try:
            await self.handle(event.event)
        except VitascopeError as error:
            log.warning("webhooks of an event wait", event_id=event.event.id, error=str(error))
            await event.retry(RETRY_S)
        except ValueError as error:
            log.exception("event cannot be delivered", event_id=event.event.id)
            await event.drop(str(error))
        else:
            await event.ack()

    def _find_subscriptions(self, tenant: str, event: CloudEvent) -> tuple[Subscription, ...]:
        document = self._tenants.find(tenant)
        if document is None or document.is_disabled:
            return ()
        name, at = name_event(event.type), event.time
        return tuple(
            row
            for row in document.webhooks.subscriptions
            if row.disabled is None and name in row.events and (at is None or at >= row.created)
        )

    async def _add_callback(self, event: CloudEvent, tenant: str) -> None:
        stamped = await self._ledger.get(event.subject or "")
        url = stamped.record.admission.callback_url if stamped is not None else None
        if url is None:
            log.warning("callback address is gone with its job", job=event.subject, event_id=event.id)
            return
        await self._add(event, tenant, CALLBACK, url)

    async def _add(self, event: CloudEvent, tenant: str, target: str, url: str | None = None) -> None:
        now = self._clock.now()
        delivery: Delivery = make_delivery(event, target, tenant, url=url, now=now, life=self._life)
        if self._count_pending(tenant, target) >= MAX_BACKLOG:
            delivery = end_dead(delivery, f"{MAX_BACKLOG} deliveries were waiting already.", now)
        await self._book.add(delivery)


async def _distribute(events: AsyncIterator[Event], shards: "list[asyncio.Queue[Event]]") -> None:
    async for event in events:
        await shards[hash(event.event.subject) % SHARDS].put(event)


def _read_tenant(event: CloudEvent) -> str | None:
    """The tenant of an event that a webhook can be told of; None for others."""
    parts = event.source.split("/")
    is_ours = parts[:3] == ["", "vitascope", "tenants"] and len(parts) > 3  # noqa: PLR2004 (the tenant is the fourth)
    is_job = event.subject is not None and is_job_id(event.subject)
    return parts[3] if is_ours and is_job and name_event(event.type) in JOB_EVENTS else None
