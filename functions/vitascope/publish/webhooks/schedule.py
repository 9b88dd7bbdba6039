"""Which delivery is tried next: decided in memory, by pure code that is told the time.

Every target of a tenant has a lane of its own. Lanes take turns, each has few tries open at once, and a lane in which
the last try failed has one. A tenant has a share of all tries, so however many of its receivers are slow, those of
others are served.
"""

import heapq
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from vitascope.contracts.deliveries import DeliveryPlace
from vitascope.contracts.webhooks import CALLBACK
from vitascope.runtime.deliveries import StampedDelivery

MAX_OPEN = 256
"""Tries of all tenants at once. Each is one socket that waits, so the machine hardly notices."""
MAX_TENANT_OPEN = 16
"""Of one tenant: a sixteenth of all."""
MAX_LANE_OPEN = 4
"""Of one receiver that answers."""
LOOK_AHEAD = 64
"""Events of one job go one after the other; past how many that wait for their turn a lane looks for one that may go."""

Lane = tuple[str, str]
"""A tenant and a target; callbacks have a lane for each address."""


@dataclass(frozen=True)
class Due:
    """What the schedule knows of a pending delivery."""

    place: DeliveryPlace
    lane: Lane
    job: str | None
    sequence: int
    due: datetime
    tries: int
    is_replay: bool
    revision: int

    @classmethod
    def of(cls, stamped: StampedDelivery) -> "Due":
        """Of a pending delivery."""
        delivery = stamped.delivery
        assert delivery.next_try is not None, "a pending delivery has a next try"
        target = f"{CALLBACK} {delivery.url}" if delivery.target == CALLBACK else delivery.target
        return cls(
            place=delivery.place,
            lane=(delivery.tenant, target),
            job=delivery.job,
            sequence=delivery.sequence,
            due=delivery.next_try,
            tries=delivery.tries,
            is_replay=delivery.is_replay,
            revision=stamped.revision,
        )


@dataclass
class _LaneState:
    ready: deque[DeliveryPlace] = field(default_factory=deque)
    open: int = 0
    limit: int = MAX_LANE_OPEN
    jobs: set[str] = field(default_factory=set)


class Schedule:
    """All pending deliveries. Memory: one small row each."""

    def __init__(self) -> None:
        self._items: dict[DeliveryPlace, Due] = {}
        self._open: dict[DeliveryPlace, Due] = {}
        self._later: list[tuple[datetime, int, DeliveryPlace]] = []
        self._pushed = 0
        self._lanes: dict[Lane, _LaneState] = {}
        self._turn: dict[Lane, None] = {}  # lanes with something ready; the next to be served first
        self._queued: set[DeliveryPlace] = set()
        self._jobs: dict[tuple[Lane, str], set[DeliveryPlace]] = {}
        self._tenants: Counter[str] = Counter()
        self._waiting: Counter[tuple[str, str]] = Counter()

    def __len__(self) -> int:
        return len(self._items)

    def count(self, tenant: str, target: str) -> int:
        """How many of a target are pending."""
        return self._waiting[tenant, target]

    def put(self, item: Due) -> None:
        """Take in a delivery, or its newer state."""
        known = self._items.get(item.place)
        if known is not None and known.revision >= item.revision:
            return
        if known is None:
            self._waiting[item.place.tenant, item.place.target] += 1
        self._items[item.place] = item
        if item.job is not None:
            self._jobs.setdefault((item.lane, item.job), set()).add(item.place)
        if item.place not in self._open and item.place not in self._queued:
            self._push(item)

    def remove(self, place: DeliveryPlace) -> None:
        """Forget a delivery that is pending no more; a try that is open goes on until it is released."""
        item = self._items.pop(place, None)
        if item is None:
            return
        self._waiting[place.tenant, place.target] -= 1
        if not self._waiting[place.tenant, place.target]:
            del self._waiting[place.tenant, place.target]
        if item.job is not None:
            self._discard_job(item.lane, item.job, place)

    def take(self, now: datetime) -> list[Due]:
        """Those to be tried now; each is open until it is released."""
        self._queue_due(now)
        taken: list[Due] = []
        while started := self._take_round(MAX_OPEN - len(self._open)):
            taken += started
        return taken

    def release(self, place: DeliveryPlace, *, is_answering: bool) -> None:
        """A try is over; the delivery comes again when it is due, unless it was removed."""
        item = self._open.pop(place)
        self._tenants[place.tenant] -= 1
        if not self._tenants[place.tenant]:
            del self._tenants[place.tenant]
        lane = self._lanes[item.lane]
        lane.open -= 1
        lane.limit = MAX_LANE_OPEN if is_answering else 1
        lane.jobs.discard(item.job or "")
        if not lane.open and not lane.ready:
            del self._lanes[item.lane]
        if (newest := self._items.get(place)) is not None:
            self._push(newest)

    def find_next_due(self) -> datetime | None:
        """When something is due that is not yet; what is due and has to wait for its turn goes with a release."""
        return self._later[0][0] if self._later else None

    def find_overtaken(self, item: Due) -> list[DeliveryPlace]:
        """Deliveries that have failed, and whose job has now reached the state of `item`."""
        return [
            other.place
            for other in self._of_job(item)
            if other.sequence < item.sequence and other.tries and not other.is_replay and other.place not in self._open
        ]

    def is_overtaken(self, place: DeliveryPlace) -> bool:
        """Whether a newer state of its job is known here."""
        item = self._items.get(place)
        if item is None or item.is_replay:
            return False
        return any(other.sequence > item.sequence and not other.is_replay for other in self._of_job(item))

    def _of_job(self, item: Due) -> Iterator[Due]:
        places = self._jobs.get((item.lane, item.job), ()) if item.job is not None else ()
        return (self._items[place] for place in places)

    def _discard_job(self, lane: Lane, job: str, place: DeliveryPlace) -> None:
        places = self._jobs[lane, job]
        places.discard(place)
        if not places:
            del self._jobs[lane, job]

    def _push(self, item: Due) -> None:
        self._pushed += 1
        heapq.heappush(self._later, (item.due, self._pushed, item.place))

    def _queue_due(self, now: datetime) -> None:
        while self._later and self._later[0][0] <= now:
            place = heapq.heappop(self._later)[2]
            item = self._items.get(place)
            if item is None or place in self._queued or place in self._open:
                continue
            if item.due > now:  # it was put off since
                self._push(item)
                continue
            self._lanes.setdefault(item.lane, _LaneState()).ready.append(place)
            self._queued.add(place)
            self._turn.setdefault(item.lane)

    def _take_round(self, room: int) -> list[Due]:
        """Start at most one try of each lane; those that were served go to the end of the turn."""
        started: list[Due] = []
        for lane in list(self._turn):
            if len(started) >= room:
                break
            state = self._lanes[lane]
            if state.open >= state.limit or self._tenants[lane[0]] >= MAX_TENANT_OPEN:
                continue
            item = self._find_startable(state)
            del self._turn[lane]
            if state.ready:
                self._turn[lane] = None
            elif not state.open and item is None:
                del self._lanes[lane]
            if item is not None:
                self._start(item, state)
                started.append(item)
        return started

    def _start(self, item: Due, state: _LaneState) -> None:
        state.open += 1
        if item.job is not None:
            state.jobs.add(item.job)
        self._tenants[item.lane[0]] += 1
        self._open[item.place] = item

    def _find_startable(self, state: _LaneState) -> Due | None:
        """Take the first one out whose job has no other try open."""
        passed: list[DeliveryPlace] = []
        found: Due | None = None
        while state.ready and found is None and len(passed) < LOOK_AHEAD:
            place = state.ready.popleft()
            item = self._items.get(place)
            if item is None:
                self._queued.discard(place)
            elif item.job is not None and item.job in state.jobs:
                passed.append(place)
            else:
                self._queued.discard(place)
                found = item
        state.ready.extendleft(reversed(passed))
        return found
