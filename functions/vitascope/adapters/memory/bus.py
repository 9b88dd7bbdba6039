"""The bus in memory."""

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from fnmatch import fnmatchcase

from vitascope.adapters.envelope import pack, unpack
from vitascope.adapters.memory.feed import Feed
from vitascope.adapters.memory.queue import WorkQueue
from vitascope.adapters.memory.state import BrokerState
from vitascope.adapters.memory.work import MemoryConsumption
from vitascope.contracts.events import CloudEvent, Control, FramesReady, Progress
from vitascope.contracts.flow import Stage
from vitascope.contracts.subjects import WORK_DENOISE, work_consumer, work_filter
from vitascope.runtime.ports import Delivery

CONTROL_MAX = 256
"""Control messages that wait for one listener; more are lost, as they may be."""


class MemoryBus:
    """Work, events, progress and control; see `runtime.ports.Bus`.

    Attributes:
        events: the public events so far, each with its subject, in order.
        dead: the dead letters so far, likewise.
        published: set with each public event; whoever waits for one clears it.
    """

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._work = WorkQueue(state)
        self._progress: Feed[bytes] = Feed()
        self._controls: dict[str, set[asyncio.Queue[Control]]] = {}
        self._event_ids: set[str] = set()
        self.published = asyncio.Event()
        self.events: list[tuple[str, CloudEvent]] = []
        self.dead: list[tuple[str, CloudEvent]] = []

    def is_connected(self) -> bool:
        """Whether there is no outage."""
        return self._state.connected

    def count_connections(self) -> int:
        """One more after each outage."""
        return self._state.connections

    def wake(self) -> None:
        """Let consumers see that an outage has begun or ended."""
        self._work.wake()

    async def publish_work(self, subject: str, event: CloudEvent) -> None:
        """Put a work event into the queue; copies are dropped."""
        self._state.check()
        self._work.publish(subject, event.id, pack(event))

    async def has_work(self, subject: str) -> bool:
        """Whether an event of that exact subject waits or is being worked on."""
        self._state.check()
        return self._work.has(subject)

    async def drop_work(self, subject: str) -> None:
        """Take away the events of that exact subject."""
        self._state.check()
        self._work.drop(subject)

    async def list_work(self) -> Sequence[str]:
        """The subjects of all work events that wait or are being worked on."""
        self._state.check()
        return self._work.subjects()

    async def drop_idle_consumers(self, groups: Collection[tuple[str, str]]) -> Sequence[str]:
        """Delete the consumers of other denoise groups that nobody uses and that have no work."""
        self._state.check()
        subjects, durable = self._work.subjects(), self._work.durable
        kept = {work_filter(Stage.DENOISE, pool, group) for pool, group in groups}
        idle = sorted(
            name
            for name, consumer in durable.items()
            if consumer.pattern.startswith(WORK_DENOISE)
            and consumer.pattern not in kept
            and not consumer.users
            and not any(fnmatchcase(subject, consumer.pattern) for subject in subjects)
        )
        for name in idle:
            del durable[name]
        return idle

    def lose(self) -> None:
        """Lose the work and the newest progress; what was published for people stays to be looked at."""
        self._work.lose()
        self._progress.values.clear()
        self._event_ids.clear()

    def consume(
        self,
        stage: Stage,
        pool: str,
        group: str | None = None,
        *,
        limit: int = 1,
    ) -> AbstractAsyncContextManager[AsyncIterator[Delivery]]:
        """Take work of a stage."""
        return MemoryConsumption(self._work, work_consumer(stage, pool, group), work_filter(stage, pool, group), limit)

    async def publish_event(self, subject: str, event: CloudEvent) -> None:
        """Keep a public event; copies are dropped."""
        self._state.check()
        packed = pack(event)
        if event.id not in self._event_ids:
            self._event_ids.add(event.id)
            self.events.append((subject, unpack(*packed)))
            self.published.set()

    async def publish_dead(self, subject: str, event: CloudEvent) -> None:
        """Keep a dead letter."""
        self._state.check()
        self.dead.append((subject, unpack(*pack(event))))

    async def publish_progress(self, subject: str, progress: Progress | FramesReady) -> None:
        """Replace the newest progress of a subject; lost during an outage."""
        if self._state.connected:
            self._progress.put(subject, progress.model_dump_json().encode())

    def watch_progress(self, subject: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """The newest progress of a subject, and what follows."""
        return self._watch_progress(subject)

    @asynccontextmanager
    async def _watch_progress(self, subject: str) -> AsyncIterator[AsyncIterator[bytes]]:
        self._state.check()
        async with self._progress.watch(lambda key, _: _is_under(key, subject)) as news:
            yield (body async for body in news if body is not None)

    async def send_control(self, group: str, control: Control) -> None:
        """Tell those who listen now."""
        self._state.check()
        for queue in self._controls.get(group, set()):
            if not queue.full():
                queue.put_nowait(control)

    @asynccontextmanager
    async def watch_control(self, group: str) -> AsyncIterator[AsyncIterator[Control]]:
        """What others tell a group from now on."""
        self._state.check()
        queue: asyncio.Queue[Control] = asyncio.Queue(CONTROL_MAX)
        listeners = self._controls.setdefault(group, set())
        listeners.add(queue)
        try:
            yield _drain(queue)
        finally:
            listeners.discard(queue)


async def _drain(queue: asyncio.Queue[Control]) -> AsyncIterator[Control]:
    while True:
        yield await queue.get()


def _is_under(subject: str, pattern: str) -> bool:
    """Whether a subject is the pattern's, or one of those that its last token `>` stands for."""
    return subject.startswith(pattern[:-1]) if pattern.endswith(".>") else subject == pattern
