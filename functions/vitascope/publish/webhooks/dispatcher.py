"""Has the couriers carry what is due: follows the book, asks the schedule, starts tries and waits for the next."""

import asyncio
from datetime import datetime

import structlog

from vitascope.contracts.deliveries import DeliveryPlace
from vitascope.contracts.failures import VitascopeError
from vitascope.publish.webhooks.courier import Courier
from vitascope.publish.webhooks.metrics import PENDING
from vitascope.publish.webhooks.schedule import Due, Schedule
from vitascope.runtime.deliveries import DeliveryBook, StampedDelivery
from vitascope.runtime.ports import Clock

RETRY_S = 1.0
"""Before a delivery that cannot be looked up, or a book that cannot be followed, is tried again."""
LOOK_MAX_S = 30.0
"""The longest sleep, so that a clock that is set forward is noticed."""
MAX_DROPPING = 32
"""Overtaken deliveries that are being ended at once."""

log = structlog.get_logger(__name__)


class Dispatcher:
    """Runs in one process at a time, for economy; a second one would only deliver twice."""

    def __init__(self, book: DeliveryBook, courier: Courier, clock: Clock) -> None:
        self._book, self._courier, self._clock = book, courier, clock
        self._schedule = Schedule()
        self._news = asyncio.Event()
        self._dropping = asyncio.Semaphore(MAX_DROPPING)

    def count_pending(self, tenant: str, target: str) -> int:
        """How many deliveries of a target are pending."""
        return self._schedule.count(tenant, target)

    def poke(self) -> None:
        """Look again what is due."""
        self._news.set()

    async def run(self) -> None:
        """Deliver until cancelled; tries that are open then are given up, and made again by whoever comes next."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow(group), name="webhook book")
            while True:
                self._news.clear()
                now = self._clock.now()
                for item in self._schedule.take(now):
                    group.create_task(self._carry(item), name=f"webhook {item.place.id}")
                PENDING.set(len(self._schedule))
                await self._wait(now)

    async def _follow(self, group: asyncio.TaskGroup) -> None:
        while True:
            try:
                async with self._book.watch() as changes:
                    async for row in changes:
                        self._note(row, group)
            except VitascopeError as error:
                log.warning("deliveries cannot be followed", error=str(error))
            await asyncio.sleep(RETRY_S)

    def _note(self, row: StampedDelivery | DeliveryPlace | None, group: asyncio.TaskGroup) -> None:
        if isinstance(row, StampedDelivery):
            item = Due.of(row)
            self._schedule.put(item)
            for place in self._schedule.find_overtaken(item):
                group.create_task(self._drop(place), name=f"webhook {place.id} overtaken")
        elif row is not None:
            self._schedule.remove(row)
        self._news.set()

    async def _carry(self, item: Due) -> None:
        place, is_answering = item.place, False
        try:
            saved = await self._courier.carry(place, lambda: self._schedule.is_overtaken(place))
        except VitascopeError as error:
            log.warning("delivery cannot be looked up", tenant=place.tenant, delivery=place.id, error=str(error))
            await asyncio.sleep(RETRY_S)
        else:
            if saved is None:
                self._schedule.remove(place)
            else:
                self._schedule.put(Due.of(saved))
            is_answering = saved is None
        self._schedule.release(place, is_answering=is_answering)
        self._news.set()

    async def _drop(self, place: DeliveryPlace) -> None:
        async with self._dropping:
            try:
                await self._courier.drop_overtaken(place)
            except VitascopeError as error:  # it is found again when it is due
                log.warning("overtaken delivery not ended", delivery=place.id, error=str(error))

    async def _wait(self, now: datetime) -> None:
        due = self._schedule.find_next_due()
        wait_s = LOOK_MAX_S if due is None else min(LOOK_MAX_S, max(0.0, (due - now).total_seconds()))
        try:
            async with asyncio.timeout(wait_s):
                await self._news.wait()
        except TimeoutError:
            return
