"""The bus on JetStream, and on core NATS where nothing is kept."""

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import structlog
from nats.aio.msg import Msg
from pydantic import ValidationError

from vitascope.adapters.envelope import pack
from vitascope.adapters.jetstream.api import MESSAGE_ID, call, call_pages, get_last, store
from vitascope.adapters.jetstream.connection import Connection
from vitascope.adapters.jetstream.consumers import drop_idle_consumers
from vitascope.adapters.jetstream.watch import Watch
from vitascope.adapters.jetstream.work import Consumption, work_source
from vitascope.contracts.events import CloudEvent, Control, FramesReady, Progress
from vitascope.contracts.flow import Stage
from vitascope.contracts.subjects import STREAM_PROGRESS, STREAM_WORK, WORK_ALL, control_subject
from vitascope.runtime.ports import Delivery

CONTROL_MAX = 256
"""Control messages that wait for one listener; more are lost, as they may be."""

log = structlog.get_logger(__name__)


class JetStreamBus:
    """See `runtime.ports.Bus`. The durable consumer of a stage is made by the first process that consumes it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def is_connected(self) -> bool:
        """Whether the server is there, as far as the client knows."""
        return self._connection.is_connected

    def count_connections(self) -> int:
        """How often the connection has been made."""
        return self._connection.epoch

    async def publish_work(self, subject: str, event: CloudEvent) -> None:
        """Put a work event into the queue; copies are dropped."""
        await self._publish(subject, event)

    async def has_work(self, subject: str) -> bool:
        """Whether an event of that exact subject waits or is being worked on."""
        return await get_last(self._connection, STREAM_WORK, subject) is not None

    async def drop_work(self, subject: str) -> None:
        """Take away the events of that exact subject."""
        await call(self._connection, f"STREAM.PURGE.{STREAM_WORK}", {"filter": subject})

    async def list_work(self) -> Sequence[str]:
        """The subjects of all work events, each once, sorted; the server gives up to 100,000 of them in a page."""
        found: set[str] = set()
        async for page in call_pages(self._connection, f"STREAM.INFO.{STREAM_WORK}", {"subjects_filter": WORK_ALL}):
            found.update(page["state"].get("subjects") or ())
        return sorted(found)

    async def drop_idle_consumers(self, groups: Collection[tuple[str, str]]) -> Sequence[str]:
        """Delete the durable consumers of other denoise groups that nobody uses and that have no work."""
        return await drop_idle_consumers(self._connection, groups)

    def consume(
        self,
        stage: Stage,
        pool: str,
        group: str | None = None,
        *,
        limit: int = 1,
    ) -> AbstractAsyncContextManager[AsyncIterator[Delivery]]:
        """Take work of a stage."""
        return Consumption(self._connection, work_source(stage, pool, group), limit=limit)

    async def publish_event(self, subject: str, event: CloudEvent) -> None:
        """Keep a public event; copies are dropped."""
        await self._publish(subject, event)

    async def publish_dead(self, subject: str, event: CloudEvent) -> None:
        """Keep a dead letter."""
        await self._publish(subject, event)

    async def publish_progress(self, subject: str, progress: Progress | FramesReady) -> None:
        """Replace the newest progress of a subject, without waiting for anything."""
        await self._connection.send(subject, progress.model_dump_json().encode())

    def watch_progress(self, subject: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """The newest progress of a subject, and what follows."""
        return self._watch_progress(subject)

    @asynccontextmanager
    async def _watch_progress(self, subject: str) -> AsyncIterator[AsyncIterator[bytes]]:
        async with Watch(self._connection, STREAM_PROGRESS, subject) as watch:
            yield (message.data async for message in watch if message is not None)

    async def send_control(self, group: str, control: Control) -> None:
        """Tell those who listen now."""
        await self._connection.send(control_subject(group), control.model_dump_json().encode())

    @asynccontextmanager
    async def watch_control(self, group: str) -> AsyncIterator[AsyncIterator[Control]]:
        """What others tell a group from now on."""
        queue: asyncio.Queue[Control] = asyncio.Queue(CONTROL_MAX)

        async def take(message: Msg) -> None:
            try:
                queue.put_nowait(Control.model_validate_json(message.data))
            except (ValidationError, asyncio.QueueFull) as error:
                log.warning("bus.control_lost", group=group, error=str(error))

        async with self._connection.listen(control_subject(group), take):
            yield _drain(queue)

    async def _publish(self, subject: str, event: CloudEvent) -> None:
        headers, payload = pack(event)
        await store(self._connection, subject, payload, {**headers, MESSAGE_ID: event.id})


async def _drain(queue: asyncio.Queue[Control]) -> AsyncIterator[Control]:
    while True:
        yield await queue.get()
