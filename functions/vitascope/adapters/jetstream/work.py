"""Consuming work, and public events alike: long pulls for as many as there is room, and a clean way out."""

import asyncio
import base64
import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import structlog
from nats.aio.msg import Msg

from vitascope.adapters.envelope import pack, unpack
from vitascope.adapters.jetstream.api import MESSAGE_ID, store
from vitascope.adapters.jetstream.connection import Connection
from vitascope.adapters.jetstream.consumers import ensure_consumer, plan_consumer, plan_webhook_consumer
from vitascope.adapters.jetstream.delivery import NAK, TERM, JetStreamDelivery
from vitascope.adapters.jetstream.pull import Pauses, Pull, PullLost
from vitascope.contracts.events import TYPE_PREFIX, CloudEvent
from vitascope.contracts.failures import VitascopeError
from vitascope.contracts.flow import Stage
from vitascope.contracts.subjects import STREAM_EVENTS, STREAM_WORK, dead_event_subject, dead_subject

BURIED_MAX_BYTES = 8192
"""How much of a message that nobody understands is kept."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Source:
    """What is consumed: a durable consumer of a stream.

    Attributes:
        consumer: its configuration, as JetStream's API takes it.
        name_dead: where a message that is no event goes; its argument is the last token of the message's subject.
    """

    stream: str
    consumer: dict[str, Any]
    name_dead: Callable[[str], str]

    @property
    def name(self) -> str:
        """The consumer's name."""
        return str(self.consumer["name"])


def work_source(stage: Stage, pool: str, group: str | None) -> Source:
    """The work of a stage."""
    return Source(STREAM_WORK, plan_consumer(stage, pool, group), lambda job: dead_subject(stage, job))


def event_source() -> Source:
    """All public events."""
    return Source(STREAM_EVENTS, plan_webhook_consumer(), dead_event_subject)


class Consumption:
    """The deliveries of one consumer to this process, at most `limit` taken and unfinished.

    Entering never fails: while the server is away or has no streams yet it tries again, and says so in the log.
    """

    def __init__(self, connection: Connection, source: Source, *, limit: int) -> None:
        assert limit >= 1, "a consumer without room takes nothing"
        self._connection, self._source, self._limit = connection, source, limit
        self._name = source.name
        self._ready: deque[JetStreamDelivery] = deque()
        self._held: set[JetStreamDelivery] = set()
        self._arrived = asyncio.Event()
        self._pull: Pull | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._is_left = False

    async def __aenter__(self) -> Self:
        self._keeper = asyncio.create_task(self._keep(), name=f"consume-{self._name}")
        self._keeper.add_done_callback(lambda _: self._arrived.set())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Take nothing more, and hand back what nobody has seen. What was yielded stays its taker's."""
        self._is_left = True
        assert self._keeper is not None
        self._keeper.cancel()
        try:
            await asyncio.gather(self._keeper, return_exceptions=True)
        finally:
            while self._ready:
                await self._connection.send(self._ready.popleft().reply, NAK)
            self._arrived.set()
            await self._connection.flush()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> JetStreamDelivery:
        assert self._keeper is not None, "enter the context first"
        while not self._is_left:
            while self._ready:
                delivery = self._ready.popleft()
                if not delivery.is_overdue():
                    self._held.add(delivery)
                    return delivery
            if self._keeper.done():
                self._keeper.result()
            self._arrived.clear()
            await self._arrived.wait()
        raise StopAsyncIteration

    async def _keep(self) -> None:
        pauses = Pauses(self._connection)
        while True:
            pauses.begin()
            try:
                await ensure_consumer(self._connection, self._source.stream, self._source.consumer)
                async with Pull(self._connection, self._source.stream, self._name, self._take) as self._pull:
                    pauses.succeed()
                    await self._pull.run(self._room)
            except PullLost as lost:
                log.info("work.pull_renewed", consumer=self._name, reason=str(lost))
            except VitascopeError as error:
                log.warning("work.cannot_bind", consumer=self._name, error=str(error))
            await pauses.rest()

    def _room(self) -> int:
        return self._limit - len(self._ready) - len(self._held)

    async def _take(self, message: Msg) -> None:
        if self._is_left:
            await self._connection.send(message.reply, NAK)
            return
        try:
            event = unpack(message.headers, message.data)
        except ValueError as error:
            await self._bury(message, error)
            return
        self._ready.append(JetStreamDelivery(self._connection, message, event, self._finish))
        self._arrived.set()

    def _finish(self, delivery: JetStreamDelivery) -> None:
        self._held.discard(delivery)
        if self._pull is not None:
            self._pull.poked.set()

    async def _bury(self, message: Msg, error: ValueError) -> None:
        """Keep a message that is no event for people to look at, and end it; if that fails it comes again."""
        sequence = message.metadata.sequence.stream
        log.error("work.not_an_event", consumer=self._name, sequence=sequence, error=str(error))
        body = base64.b64encode(message.data[:BURIED_MAX_BYTES]).decode()
        letter = CloudEvent(
            id=f"{self._source.stream}:{sequence}",
            source="/vitascope/bus",
            type=f"{TYPE_PREFIX}.dead.malformed.v1",
            subject=message.subject,
            data={"error": str(error)[:1000], "headers": json.dumps(message.headers)[:2000], "body_base64": body},
        )
        headers, payload = pack(letter)
        subject = self._source.name_dead(message.subject.rpartition(".")[2])
        try:
            await store(self._connection, subject, payload, {**headers, MESSAGE_ID: letter.id})
            await self._connection.request(message.reply, TERM)
        except VitascopeError as failure:
            log.warning("work.cannot_bury", consumer=self._name, sequence=sequence, error=str(failure))
