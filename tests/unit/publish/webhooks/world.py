"""Everything behind webhooks in memory: ports, receivers, and the parts of the service over them."""

import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta

from doors import until
from hooks import LIFE, Receivers, subscription
from records import NOW
from vitascope.adapters.memory import HeldTime, MemoryBroker, MemoryObjectStore
from vitascope.contracts.deliveries import Delivery
from vitascope.contracts.events import CloudEvent
from vitascope.contracts.subjects import event_subject
from vitascope.contracts.tenants import Tenant
from vitascope.contracts.webhooks import Subscription, find_subscription, put_subscription
from vitascope.publish.webhooks import WebhookDeps
from vitascope.publish.webhooks.courier import Courier
from vitascope.publish.webhooks.health import Health
from vitascope.runtime.beside import beside
from vitascope.runtime.tenants import KeptTenants

DISABLE_AFTER = timedelta(days=5)


class FixedRandom(random.Random):
    """Draws nothing but zero: waits without jitter."""

    def random(self) -> float:
        return 0.0


@dataclass
class HookWorld:
    """The clock stands at `NOW`, and moves when a test says so."""

    time: HeldTime = field(default_factory=HeldTime)
    receivers: Receivers = field(default_factory=Receivers)

    def __post_init__(self) -> None:
        self.time.advance((NOW - self.time.now()).total_seconds())
        self.broker = MemoryBroker(timing=self.time)
        self.book, self.store = self.broker.deliveries, MemoryObjectStore()
        self.tenants = KeptTenants(self.broker.tenants, self.store, self.time)
        self.health = Health(self.tenants, DISABLE_AFTER)
        self.courier = Courier(self.book, self.tenants, self.receivers, self.health, clock=self.time, rng=FixedRandom())

    def make_deps(self, holder: str = "here:1") -> WebhookDeps:
        """For one process."""
        return WebhookDeps(
            feed=self.broker.events,
            book=self.book,
            tenants=self.tenants,
            ledger=self.broker.ledger,
            registry=self.broker.registry,
            sender=self.receivers,
            clock=self.time,
            holder=holder,
            give_up_after=LIFE,
            disable_after=DISABLE_AFTER,
        )

    async def subscribe(self, **changes: object) -> Subscription:
        """A webhook of the tenant `default`."""
        row = subscription(**changes)

        def put(tenant: Tenant) -> Tenant:
            return tenant.model_copy(update={"webhooks": put_subscription(tenant.webhooks, row)})

        await self.tenants.change("default", put)
        return row

    async def load_subscription(self, row: Subscription) -> Subscription:
        """As it is now."""
        tenant = await self.tenants.get("default")
        found = find_subscription(tenant.webhooks, row.id) if tenant is not None else None
        assert found is not None
        return found

    async def publish(self, event: CloudEvent) -> None:
        """An event, as the publish process does."""
        await self.broker.bus.publish_event(event_subject("default", event.subject or "", event.type), event)

    async def load(self, row: Delivery) -> Delivery:
        """A delivery as it is now."""
        found = await self.book.get(row.place)
        assert found is not None
        return found.delivery

    async def list_all(self, target: str) -> list[Delivery]:
        """A target's deliveries, the oldest job's first."""
        ids = await self.book.list_ids("default", target)
        places = [Delivery.model_construct(tenant="default", target=target, id=row).place for row in reversed(ids)]
        return [found.delivery for place in places if (found := await self.book.get(place)) is not None]


@asynccontextmanager
async def running(*works: Callable[[], object]) -> AsyncIterator[None]:
    """Coroutines that run beside the block."""
    async with beside(works[0](), name="under test"):  # type: ignore[arg-type]  # every one of them makes a coroutine
        if works[1:]:
            async with running(*works[1:]):
                yield
        else:
            yield


__all__ = ["DISABLE_AFTER", "HookWorld", "running", "until"]
