"""The deliveries of webhooks in memory, and the feed of the public events of a bus in memory."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from vitascope.adapters.memory.bus import MemoryBus
from vitascope.adapters.memory.feed import Feed
from vitascope.adapters.memory.state import BrokerState
from vitascope.contracts.deliveries import Delivery, DeliveryPlace
from vitascope.contracts.events import CloudEvent
from vitascope.runtime.deliveries import LOG_S, StampedDelivery
from vitascope.runtime.ports import Conflict
from vitascope.runtime.ports import Delivery as Event

Row = StampedDelivery | DeliveryPlace


class MemoryDeliveryBook:
    """See `runtime.deliveries.DeliveryBook`."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._feed: Feed[Row] = Feed()
        self._log: dict[str, tuple[Delivery, float]] = {}
        self._revision = 0

    async def add(self, delivery: Delivery) -> bool:
        """Put a new one in, unless its place is known."""
        if await self.get(delivery.place) is not None:
            return False
        if delivery.is_pending:
            self._put(delivery)
        else:
            self._end(delivery)
        return True

    async def get(self, place: DeliveryPlace) -> StampedDelivery | None:
        """The pending one, or else that of the log."""
        self._state.check()
        key = _name(place)
        held = self._feed.values.get(key)
        if isinstance(held, StampedDelivery):
            return held
        logged, until_s = self._log.get(key, (None, 0.0))
        return StampedDelivery(logged, 0) if logged and self._state.timing.now_s() < until_s else None

    async def replace(self, current: StampedDelivery, delivery: Delivery) -> StampedDelivery:
        """Compare-and-set; into the log, if it has ended."""
        self._state.check()
        key = _name(delivery.place)
        held = self._feed.values.get(key)
        if not isinstance(held, StampedDelivery) or held.revision != current.revision:
            raise Conflict(f"{key} is no longer at revision {current.revision}")
        if delivery.is_pending:
            return self._put(delivery)
        self._end(delivery)
        self._feed.forget(key)
        self._feed.tell(key, delivery.place)
        self._revision += 1
        return StampedDelivery(delivery, self._revision)

    async def reopen(self, delivery: Delivery) -> bool:
        """Put it among the pending ones, unless it is there."""
        self._state.check()
        assert delivery.is_pending, "what has ended belongs into the log"
        if _name(delivery.place) in self._feed.values:
            return False
        self._put(delivery)
        return True

    async def list_ids(self, tenant: str, target: str) -> Sequence[str]:
        """The ids of a target's deliveries, the newest job's first."""
        self._state.check()
        start, now_s = f"{tenant}.{target}.", self._state.timing.now_s()
        logged = (key for key, (_, until_s) in self._log.items() if now_s < until_s)
        keys = {*self._feed.values, *logged}
        return sorted((key.removeprefix(start) for key in keys if key.startswith(start)), reverse=True)

    def watch(self) -> AbstractAsyncContextManager[AsyncIterator[Row | None]]:
        """All pending ones, None, then every change."""
        self._state.check()
        return self._feed.watch(lambda _key, _row: True)

    def lose(self) -> None:
        """Lose everything."""
        self._feed.values.clear()
        self._log.clear()

    def _put(self, delivery: Delivery) -> StampedDelivery:
        self._revision += 1
        stamped = StampedDelivery(Delivery.from_bytes(delivery.to_bytes()), self._revision)
        self._feed.put(_name(delivery.place), stamped)
        return stamped

    def _end(self, delivery: Delivery) -> None:
        kept = Delivery.from_bytes(delivery.to_bytes())
        self._log[_name(delivery.place)] = (kept, self._state.timing.now_s() + LOG_S)


class MemoryEventFeed:
    """See `runtime.deliveries.EventFeed`: over the events that a bus in memory keeps. One consumer at a time."""

    def __init__(self, bus: MemoryBus) -> None:
        self._bus = bus
        self._place = 0
        self._held: list[MemoryEvent] = []
        self._again: list[MemoryEvent] = []

    @asynccontextmanager
    async def consume(self, *, limit: int) -> AsyncIterator[AsyncIterator[Event]]:
        """Take events; what an earlier consumer left unfinished comes first."""
        self._again, self._held = [*self._held, *self._again], []
        yield self._take(limit)

    def finish(self, event: "MemoryEvent", *, is_again: bool) -> None:
        """Somebody has ended a delivery."""
        if event in self._held:
            self._held.remove(event)
            if is_again:
                self._again.append(MemoryEvent(self, event.event, event.deliveries + 1))
            self._bus.published.set()

    async def _take(self, limit: int) -> AsyncIterator[Event]:
        while True:
            while len(self._held) < limit and (event := self._next()) is not None:
                self._held.append(event)
                yield event
            self._bus.published.clear()
            await self._bus.published.wait()

    def _next(self) -> "MemoryEvent | None":
        if self._again:
            return self._again.pop(0)
        if self._place == len(self._bus.events):
            return None
        self._place += 1
        return MemoryEvent(self, self._bus.events[self._place - 1][1])


class MemoryEvent:
    """One public event; see `runtime.ports.Delivery`."""

    def __init__(self, feed: MemoryEventFeed, event: CloudEvent, deliveries: int = 1) -> None:
        self._feed, self._event, self._deliveries = feed, event, deliveries

    @property
    def event(self) -> CloudEvent:
        """What was published."""
        return self._event

    @property
    def deliveries(self) -> int:
        """How often it has been delivered."""
        return self._deliveries

    async def ack(self) -> None:
        """Done."""
        self._feed.finish(self, is_again=False)

    async def retry(self, delay_s: float) -> None:  # noqa: ARG002 (in memory it comes again at once)
        """Deliver it again."""
        self._feed.finish(self, is_again=True)

    async def drop(self, reason: str) -> None:  # noqa: ARG002 (nobody reads reasons in memory)
        """Never deliver it again."""
        await self.ack()

    async def beat(self) -> None:
        """Nobody else would get it."""


def _name(place: DeliveryPlace) -> str:
    return f"{place.tenant}.{place.target}.{place.id}"
