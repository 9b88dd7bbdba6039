"""Consuming work from the queue in memory."""

import asyncio
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Self

from vitascope.adapters.envelope import unpack
from vitascope.adapters.limits import RETRY_MAX_S
from vitascope.adapters.memory.queue import Durable, Waiting, WorkQueue
from vitascope.contracts.events import CloudEvent


class MemoryDelivery:
    """One delivered event; see `runtime.ports.Delivery`."""

    def __init__(self, queue: WorkQueue, message: Waiting, consumption: "MemoryConsumption") -> None:
        self._queue, self._message, self._consumption = queue, message, consumption
        self._event, self._deliveries = unpack(*message.packed), message.deliveries
        self._is_ended = False

    @property
    def event(self) -> CloudEvent:
        """What was published."""
        return self._event

    @property
    def deliveries(self) -> int:
        """How often it had been delivered, this time included."""
        return self._deliveries

    async def ack(self) -> None:
        """Done."""
        self._end(partial(self._queue.end, self._message.sequence))

    async def retry(self, delay_s: float) -> None:
        """Deliver it again after a while."""
        self._end(partial(self._queue.postpone, self._message.sequence, min(max(delay_s, 0.0), RETRY_MAX_S)))

    async def drop(self, reason: str) -> None:  # noqa: ARG002 (nobody reads reasons in memory)
        """Never deliver it again."""
        await self.ack()

    async def beat(self) -> None:
        """Still at work."""
        if not self._is_ended and self._queue.state.connected:
            self._queue.postpone(self._message.sequence, self._queue.state.ack_wait_s)

    def _end(self, end: Callable[[], None]) -> None:
        """Heard by the broker or not, it is over here, and makes room."""
        if self._is_ended:
            return
        self._is_ended = True
        try:
            self._queue.state.check()
            end()
        finally:
            self._consumption.finish(self)


class MemoryConsumption:
    """The deliveries that match a pattern, at most `limit` unfinished at once."""

    def __init__(self, queue: WorkQueue, name: str, pattern: str, limit: int) -> None:
        self._queue, self._name, self._pattern, self._limit = queue, name, pattern, limit
        self._held: set[MemoryDelivery] = set()
        self._news = asyncio.Event()
        self._is_left = False

    async def __aenter__(self) -> Self:
        self._queue.durable.setdefault(self._name, Durable(self._pattern)).users += 1
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._queue.durable[self._name].users -= 1
        self._is_left = True
        self._news.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> MemoryDelivery:
        while not self._is_left:
            if len(self._held) >= self._limit:
                self._news.clear()
                await self._news.wait()
            elif message := await self._queue.take(self._pattern, self._news):
                delivery = MemoryDelivery(self._queue, message, self)
                self._held.add(delivery)
                return delivery
        raise StopAsyncIteration

    def finish(self, delivery: MemoryDelivery) -> None:
        """Make room for another delivery."""
        self._held.discard(delivery)
        self._news.set()
