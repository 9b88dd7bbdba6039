"""The deliver process: one of its kind at work, by a lease; the others wait to take over."""

import asyncio
import random
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

import structlog

from vitascope.contracts.failures import VitascopeError
from vitascope.publish.webhooks.courier import Courier, Sender
from vitascope.publish.webhooks.dispatcher import Dispatcher
from vitascope.publish.webhooks.fanout import FanOut
from vitascope.publish.webhooks.health import Health
from vitascope.runtime.deliveries import DeliveryBook, EventFeed
from vitascope.runtime.ports import Clock, Ledger, Registry
from vitascope.runtime.tenant_index import TenantIndex
from vitascope.runtime.tenants import TenantBook

LEASE_NAME = "webhooks"
LEASE_S = 15.0
"""One that died is replaced after so long."""
LOOK_S = LEASE_S / 5
"""Between two looks at the lease."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class WebhookDeps:
    """What wiring gives to the service.

    Attributes:
        holder: names this process in the lease.
        give_up_after: from an event until nobody tries to deliver it any more.
        disable_after: how long a webhook may have nothing but failures.
    """

    feed: EventFeed
    book: DeliveryBook
    tenants: TenantBook
    ledger: Ledger
    registry: Registry
    sender: Sender
    clock: Clock
    holder: str
    give_up_after: timedelta
    disable_after: timedelta


class WebhookService:
    """Turns events into deliveries and delivers them. Two at once, in the seconds of a take-over, deliver twice."""

    def __init__(self, deps: WebhookDeps) -> None:
        self._deps, self._registry, self._holder = deps, deps.registry, deps.holder

    async def run(self) -> None:
        """Wait for the lease, work while it is ours; until cancelled."""
        while True:
            if await self._hold():
                log.info("webhooks are delivered here", holder=self._holder)
                await self._work()
            await asyncio.sleep(LOOK_S)

    async def _work(self) -> None:
        tenants, dispatcher, fan_out = compose(self._deps)
        parts = {
            "tenants": tenants.run(),
            "dispatch": dispatcher.run(),
            "fan out": fan_out.run(),
            "lease": self._keep(),
        }
        tasks = [asyncio.create_task(part, name=f"webhook {name}") for name, part in parts.items()]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            with suppress(VitascopeError):
                await self._registry.release_lease(LEASE_NAME, self._holder)

    async def _keep(self) -> None:
        """Return when the lease may be another's."""
        loop = asyncio.get_running_loop()
        held_s = loop.time()
        while loop.time() - held_s < LEASE_S:
            await asyncio.sleep(LOOK_S)
            began_s = loop.time()
            try:
                if not await self._registry.acquire_lease(LEASE_NAME, self._holder, LEASE_S):
                    break
            except VitascopeError as error:
                log.warning("lease of the webhooks cannot be renewed", error=str(error))
            else:
                held_s = began_s
        log.warning("webhooks are delivered elsewhere now", holder=self._holder)

    async def _hold(self) -> bool:
        try:
            return await self._registry.acquire_lease(LEASE_NAME, self._holder, LEASE_S)
        except VitascopeError as error:
            log.warning("lease of the webhooks cannot be had", error=str(error))
            return False


def compose(deps: WebhookDeps) -> tuple[TenantIndex, Dispatcher, FanOut]:
    """What one tenure works with: a new one remembers nothing of the one before."""
    index = TenantIndex(deps.tenants)
    health = Health(deps.tenants, deps.disable_after)
    courier = Courier(deps.book, deps.tenants, deps.sender, health, clock=deps.clock, rng=random.SystemRandom())
    dispatcher = Dispatcher(deps.book, courier, deps.clock)
    fan_out = FanOut(
        deps.feed,
        deps.book,
        index,
        deps.ledger,
        clock=deps.clock,
        life=deps.give_up_after,
        count_pending=dispatcher.count_pending,
    )
    return index, dispatcher, fan_out
