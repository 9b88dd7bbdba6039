"""Watching a stream: the newest message of each subject, then every change, across server restarts."""

import asyncio
from collections import deque
from types import TracebackType
from typing import Any, Self

import structlog
from nats.aio.msg import Msg

from vitascope.adapters.jetstream.api import NANOSECONDS, PREFIX, call
from vitascope.adapters.jetstream.connection import Connection
from vitascope.adapters.jetstream.pull import Pauses, Pull, PullLost
from vitascope.contracts.failures import VitascopeError

BUFFER = 256
"""Messages that wait for the reader: a slow one makes the server wait, not the memory grow."""
IDLE_S = 60
"""The server drops the consumer of a watcher that vanished after so long."""

log = structlog.get_logger(__name__)


class Watch:
    """The messages of some subjects of a stream: first the newest of each, then None once, then all that follow.

    After a gap (the server restarted, or messages were missed) the newest of each comes again.
    """

    def __init__(self, connection: Connection, stream: str, subject: str) -> None:
        self._connection, self._stream, self._filter = connection, stream, subject
        self._ready: deque[Msg | None] = deque()  # bounded by what `_room` asks for
        self._arrived = asyncio.Event()
        self._is_told = False
        self._expected = 0
        self._pull: Pull | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._name = ""

    async def __aenter__(self) -> Self:
        """Begin.

        Raises:
            VitascopeError: `bus_unavailable`; later losses are made good without a word.
        """
        await self._create()
        self._keeper = asyncio.create_task(self._keep(), name=f"watch-{self._stream}")
        self._keeper.add_done_callback(lambda _: self._arrived.set())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._keeper is not None
        self._keeper.cancel()
        try:
            await asyncio.gather(self._keeper, return_exceptions=True)
        finally:
            await self._delete()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Msg | None:
        assert self._keeper is not None, "enter the context first"
        while not self._ready:
            if self._keeper.cancelled():
                raise StopAsyncIteration
            if self._keeper.done():
                self._keeper.result()
            self._arrived.clear()
            await self._arrived.wait()
        message = self._ready.popleft()
        if self._pull is not None:
            self._pull.poked.set()
        return message

    async def _keep(self) -> None:
        pauses = Pauses(self._connection)
        while True:
            pauses.begin()
            try:
                if not self._name:
                    await self._create()
                async with Pull(self._connection, self._stream, self._name, self._take) as self._pull:
                    pauses.succeed()
                    await self._pull.run(self._room, at_least=BUFFER // 2)
            except PullLost as lost:
                log.info("watch.pull_renewed", stream=self._stream, reason=str(lost))
            except VitascopeError as error:
                log.warning("watch.cannot_bind", stream=self._stream, error=str(error))
            await self._delete()  # it may have missed something: a new one begins anew
            await pauses.rest()

    def _room(self) -> int:
        return BUFFER - len(self._ready)

    async def _take(self, message: Msg) -> None:
        place = message.metadata
        if place.sequence.consumer != self._expected:
            self._lose(f"message {place.sequence.consumer} came instead of {self._expected}")
            return
        self._expected += 1
        self._offer(message)
        if place.num_pending == 0:
            self._tell()

    def _lose(self, reason: str) -> None:
        if self._pull is not None:
            self._pull.end(reason)

    def _tell(self) -> None:
        if not self._is_told:
            self._is_told = True
            self._offer(None)

    def _offer(self, message: Msg | None) -> None:
        self._ready.append(message)
        self._arrived.set()

    async def _create(self) -> None:
        name = self._connection.new_inbox().replace(".", "_")
        config: dict[str, Any] = {
            "name": name,
            "filter_subject": self._filter,
            "deliver_policy": "last_per_subject",
            "ack_policy": "none",
            "replay_policy": "instant",
            "inactive_threshold": IDLE_S * NANOSECONDS,
            "max_deliver": -1,
            "mem_storage": True,
            "num_replicas": 1,
        }
        subject = f"CONSUMER.CREATE.{self._stream}.{name}.{self._filter}"
        answer = await call(self._connection, subject, {"stream_name": self._stream, "config": config})
        self._name, self._expected = name, 1
        if answer.get("num_pending", 0) == 0:
            self._tell()

    async def _delete(self) -> None:
        name, self._name = self._name, ""
        if name:
            await self._connection.send(f"{PREFIX}.CONSUMER.DELETE.{self._stream}.{name}", b"")
