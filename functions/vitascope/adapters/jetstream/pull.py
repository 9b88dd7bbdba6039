"""Long pulls on one inbox: what both the consumers of work and the watches stand on.

A pull request asks the server for up to `batch` messages within `EXPIRES_S`; meanwhile the server sends heartbeats,
so that nobody polls and a request that the server has forgotten is noticed. The server drops a request whose inbox
nobody listens to, which is why leaving is unsubscribing: no request stays behind that could take a message hostage.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from vitascope.adapters.jetstream.api import NANOSECONDS, PREFIX
from vitascope.adapters.jetstream.connection import Connection

EXPIRES_S = 30.0
HEARTBEAT_S = 5.0
SILENCE_S = 2.5 * HEARTBEAT_S
"""A server that owes us a heartbeat for so long has forgotten the request."""

REBIND_MIN_S, REBIND_MAX_S = 0.25, 2.0
"""Pauses before another try when a pull ended or could not begin though the connection is there."""

HEARTBEAT, EXPIRED = "100", "408"
PENDING = "Nats-Pending-Messages"
"""Header of an expired request: how many of its messages it leaves undelivered."""


class PullLost(Exception):
    """This pull brings nothing more: make a new one."""


class Pauses:
    """The pauses between tries to begin: each twice as long as the one before, until one succeeds."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._pause_s, self._epoch = REBIND_MIN_S, 0

    def begin(self) -> None:
        """Note which connection the try is made with."""
        self._epoch = self._connection.epoch

    def succeed(self) -> None:
        """The try was good: the next pause is a short one."""
        self._pause_s = REBIND_MIN_S

    async def rest(self) -> None:
        """Wait before the next try, but not if the connection has been made anew since this one began."""
        if self._epoch == self._connection.epoch:
            await self._connection.wait_anew(self._pause_s)
            self._pause_s = min(2 * self._pause_s, REBIND_MAX_S)


class Pull:
    """One inbox and what is asked for on it.

    Attributes:
        poked: set it when there may be room for more messages.
    """

    def __init__(
        self,
        connection: Connection,
        stream: str,
        consumer: str,
        take: Callable[[Msg], Awaitable[None]],
    ) -> None:
        self._connection, self._take = connection, take
        self._subject = f"{PREFIX}.CONSUMER.MSG.NEXT.{stream}.{consumer}"
        self._inbox = connection.new_inbox()
        self._epoch = connection.epoch
        self._subscription: Subscription | None = None
        self._asked = 0
        self._heard_s = 0.0
        self._end: str | None = None
        self.poked = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._connection.listeners.add(self.poked.set)
        self._subscription = await self._connection.subscribe(self._inbox, self._on_message)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Ask for nothing more; returns when all that was under way has been taken."""
        self._connection.listeners.discard(self.poked.set)
        if self._subscription is not None:
            await self._connection.unsubscribe(self._subscription)

    async def run(self, room: Callable[[], int], *, at_least: int = 1) -> None:
        """Keep as many messages asked for as there is room, in requests of `at_least`, until cancelled.

        Raises:
            PullLost: the connection was made anew, or the server ended or forgot the request.
        """
        while True:
            self.poked.clear()
            if self._end is not None:
                raise PullLost(self._end)
            if self._connection.epoch != self._epoch:
                raise PullLost("the connection was made anew")
            if (wanted := room() - self._asked) >= at_least:
                await self._ask(wanted)
            await self._wait()

    def end(self, reason: str) -> None:
        """Let `run` raise `PullLost` with that reason."""
        self._end = reason
        self.poked.set()

    async def _ask(self, batch: int) -> None:
        body = {
            "batch": batch,
            "expires": int(EXPIRES_S * NANOSECONDS),
            "idle_heartbeat": int(HEARTBEAT_S * NANOSECONDS),
        }
        self._asked += batch
        self._heard_s = asyncio.get_running_loop().time()
        await self._connection.send(self._subject, json.dumps(body).encode(), reply=self._inbox)

    async def _wait(self) -> None:
        """Return when poked; raise if the server owes us a sign of life."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout_at(self._heard_s + SILENCE_S if self._asked else None):
                await self.poked.wait()
        except TimeoutError:
            if loop.time() >= self._heard_s + SILENCE_S:
                raise PullLost(f"no heartbeat for {SILENCE_S:g} s") from None

    async def _on_message(self, message: Msg) -> None:
        self._heard_s = asyncio.get_running_loop().time()
        if message.subject != self._inbox:
            self._asked = max(0, self._asked - 1)
            await self._take(message)
        else:
            self._note_status(message.headers or {})
        self.poked.set()

    def _note_status(self, headers: dict[str, str]) -> None:
        status = headers.get("Status", "")
        if status == HEARTBEAT:
            return
        if status == EXPIRED and headers.get(PENDING, "").isdigit():
            self._asked = max(0, self._asked - int(headers[PENDING]))
            return
        self.end(f"{status} {headers.get('Description', '')}".strip())
