"""The one connection of a process to NATS: found at start or not at all, then kept for ever."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

import nats.errors
import structlog
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from vitascope.adapters.jetstream.errors import make_unreachable

REQUEST_S = 10.0
"""A request that is not answered for so long fails, however often the connection was lost meanwhile."""
ABSENT_S = 2.0
"""Nobody listens to a subject for a moment while a server starts or a stream finds a leader; then it is an error."""
ABSENT_PAUSE_S = 0.1
DIAL_S = 2.0
"""One attempt to reach one server."""
REDIAL_S = 0.25
"""Between two attempts: a restarted server is found again at once, and one that is away costs next to nothing."""
PING_S = 10.0
"""A server that leaves two pings unanswered is away: half-open connections are noticed within 30 s."""
CLOSE_S = 5.0
CLOSING_S = 1.0
"""A client that met an error has called `closed_cb` by then, if it has closed itself, or never will: an error while it
closes, on a socket that is gone, keeps it from that."""

Handler = Callable[[Msg], Awaitable[None]]
T = TypeVar("T")
_ENDING: set[asyncio.Task[Any]] = set()  # calls that nobody may wait for any more; asyncio itself holds no reference
log = structlog.get_logger(__name__)


class Connection:
    """A NATS connection that outlives every server restart.

    Each time it is made anew, with a fresh client, `epoch` rises and the listeners are called. Subscriptions end with
    the connection that they were made on, but for those of `listen`. The client's own way to reconnect is not used: it
    carries requests over that the server has forgotten, gives up for good when it is turned away, and leaves a socket
    behind each time.

    Attributes:
        epoch: how often the connection has been made.
        listeners: called, without arguments, after each new connection.
    """

    def __init__(
        self,
        url: str,
        *,
        name: str = "vitascope",
        user: str | None = None,
        password: str | None = None,
        connect_timeout_s: float = REQUEST_S,
    ) -> None:
        self._servers = [server.strip() for server in url.split(",") if server.strip()]
        self._options = {"name": name, "user": user, "password": password}
        self._connect_timeout_s = connect_timeout_s
        self._last_error: Exception | None = None
        self._is_closing = False
        self._redialing: asyncio.Task[None] | None = None
        self._made_anew: asyncio.Future[None]
        self._client: Client | None = None
        self._lasting: dict[object, tuple[str, Handler]] = {}
        self.epoch = 0
        self.listeners: set[Callable[[], None]] = set()

    async def __aenter__(self) -> Self:
        """Connect.

        Raises:
            VitascopeError: `bus_unavailable`, no server answers within `connect_timeout_s`.
        """
        self._made_anew = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                await self._dial_until_connected()
        except TimeoutError as error:
            await self._shut()
            reason = self._last_error or error
            raise make_unreachable(
                f"No NATS server at {self.safe_url} lets us in within {self._connect_timeout_s:g} s",
                f"{type(reason).__name__}: {reason}. Start it, or correct VITASCOPE_NATS__URL and the credentials.",
            ) from reason
        except BaseException:
            await self._shut()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_closing = True
        if self._redialing is not None:
            self._redialing.cancel()
            await asyncio.gather(self._redialing, return_exceptions=True)
        await self._shut()

    @property
    def safe_url(self) -> str:
        """The servers' addresses without credentials."""
        return ",".join(_without_credentials(server) for server in self._servers)

    @property
    def is_connected(self) -> bool:
        """Whether the server is there, as far as the client knows."""
        return self._client is not None and bool(self._client.is_connected)

    async def request(self, subject: str, payload: bytes = b"", headers: dict[str, str] | None = None) -> Msg:
        """Ask and wait for the answer, at most `REQUEST_S`.

        If the connection is lost meanwhile the request is sent again, so it must be one that may arrive twice.

        Raises:
            VitascopeError: `bus_unavailable`.
        """
        what = f"NATS at {self.safe_url} does not answer {subject}"
        loop = asyncio.get_running_loop()
        absent_until_s = loop.time() + ABSENT_S
        try:
            async with asyncio.timeout(REQUEST_S):
                while True:
                    try:
                        if (answer := await self._ask(subject, payload, headers)) is not None:
                            return answer
                    except nats.errors.NoRespondersError as error:
                        if loop.time() > absent_until_s:
                            remedy = "nobody listens: JetStream is off, or the stream is missing. Start the scheduler."
                            raise make_unreachable(what, remedy) from error
                        await asyncio.sleep(ABSENT_PAUSE_S)
        except TimeoutError as error:
            raise make_unreachable(what, f"no answer within {REQUEST_S:g} s.") from error
        except (nats.errors.Error, OSError) as error:
            raise make_unreachable(what, f"{type(error).__name__}: {error}") from error

    async def send(self, subject: str, payload: bytes, *, reply: str = "") -> None:
        """Send without waiting for anything. During an outage it is lost, not kept for later."""
        if self._client is None or not self._client.is_connected:
            return
        try:
            await self._client.publish(subject, payload, reply=reply)
        except (nats.errors.Error, OSError) as error:
            log.debug("bus.message_lost", subject=subject, error=str(error))

    async def subscribe(self, subject: str, handler: Handler) -> Subscription:
        """Call `handler` for each message, one after the other, until the connection is lost.

        Raises:
            VitascopeError: `bus_unavailable`, the connection is closed.
        """
        assert self._client is not None, "enter the context first"
        try:
            return await self._client.subscribe(subject, cb=handler)
        except (nats.errors.Error, OSError) as error:
            raise make_unreachable(f"Cannot subscribe to {subject}", str(error)) from error

    @asynccontextmanager
    async def listen(self, subject: str, handler: Handler) -> AsyncIterator[None]:
        """Call `handler` for each message, one after the other, whatever happens to the connection."""
        key = object()
        subscription = await self.subscribe(subject, handler)
        await self.flush()
        self._lasting[key] = subject, handler
        try:
            yield
        finally:
            del self._lasting[key]
            await self.unsubscribe(subscription)  # one made later has no handler any more, and ends with its connection

    async def unsubscribe(self, subscription: Subscription) -> None:
        """Stop a subscription; returns when all messages that were under way have been handled."""
        with contextlib.suppress(nats.errors.Error, OSError, TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                if self.is_connected:
                    await _apart(subscription.drain())
                else:
                    await subscription.unsubscribe()

    async def flush(self) -> None:
        """Return when the server has taken everything sent so far, or is away."""
        with contextlib.suppress(nats.errors.Error, OSError, TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                if self._client is not None and self._client.is_connected:
                    await _apart(self._client.flush())

    def new_inbox(self) -> str:
        """A subject that nobody else uses."""
        assert self._client is not None, "enter the context first"
        return str(self._client.new_inbox())

    async def wait_anew(self, timeout_s: float) -> None:
        """Return when the connection is made anew, or after the time."""
        await asyncio.wait({self._made_anew}, timeout=timeout_s)

    async def _ask(self, subject: str, payload: bytes, headers: dict[str, str] | None) -> Msg | None:
        """The answer, or None if the connection was lost before it came."""
        made_anew = self._made_anew
        if self._client is None or not self._client.is_connected:
            await asyncio.wait({made_anew})
            return None
        asked = asyncio.create_task(self._client.request(subject, payload, timeout=REQUEST_S, headers=headers))
        try:
            await asyncio.wait({asked, made_anew}, return_when=asyncio.FIRST_COMPLETED)
            return asked.result() if asked.done() else None
        finally:
            asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)

    async def _dial_until_connected(self) -> None:
        """Try all servers again and again; without end, unless it is cancelled."""
        while not self.is_connected:
            await self._shut()
            self._client = client = Client()
            try:
                await client.connect(
                    servers=self._servers,
                    **self._options,
                    error_cb=self._on_error,
                    closed_cb=self._on_closed,
                    allow_reconnect=False,
                    max_reconnect_attempts=-1,  # of servers that cannot be reached; one that turns us away raises
                    connect_timeout=DIAL_S,
                    reconnect_time_wait=REDIAL_S,
                    ping_interval=PING_S,
                    max_outstanding_pings=2,
                )
                self._watch_reading(client)
                for subject, handler in self._lasting.values():
                    await client.subscribe(subject, cb=handler)
            except (TimeoutError, nats.errors.Error, OSError) as error:
                self._note(error)
                await asyncio.sleep(REDIAL_S)
        self.epoch += 1
        self._last_error = None
        self._made_anew.set_result(None)
        self._made_anew = asyncio.get_running_loop().create_future()
        for listener in list(self.listeners):
            listener()

    def _watch_reading(self, client: Client) -> None:
        """Have the end of the client's reading noticed, whatever the client says or fails to say of it.

        It calls nobody back, and leaves the socket open, if that is reset and what it still had to write cannot be
        written.
        """
        reading, transport = client._reading_task, client._transport  # noqa: SLF001 (there is no public sign of it)

        def note(ended: asyncio.Task[None]) -> None:
            if not ended.cancelled() and (error := ended.exception()) is not None:
                log.warning("bus.reading_ended", url=self.safe_url, error=f"{type(error).__name__}: {error}")
                transport.close()
            asyncio.get_running_loop().call_soon(self._redial_if_lost)

        reading.add_done_callback(note)

    def _note(self, error: Exception) -> None:
        """Remember why; a server that turned us away says so once, and what follows is only the closed socket."""
        if not (isinstance(error, OSError) and "authorization" in str(self._last_error).lower()):
            self._last_error = error

    async def _shut(self) -> None:
        with contextlib.suppress(nats.errors.Error, OSError, TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                if self._client is not None:
                    await self._client.close()

    async def _on_error(self, error: Exception) -> None:
        self._note(error)
        if self.is_connected:  # nothing that redialing would cure: a slow consumer, a permission
            log.warning("bus.error", url=self.safe_url, error=f"{type(error).__name__}: {error}")
        asyncio.get_running_loop().call_later(CLOSING_S, self._redial_if_lost)

    async def _on_closed(self) -> None:
        """Called by the client when its connection is lost, or when it is closed."""
        self._redial_if_lost()

    def _redial_if_lost(self) -> None:
        is_dialing = not self.epoch or (self._redialing is not None and not self._redialing.done())
        if self._is_closing or is_dialing or self.is_connected:  # connected: this was the client before the present one
            return
        log.warning("bus.disconnected", url=self.safe_url, error=str(self._last_error))
        self._redialing = asyncio.create_task(self._redial(), name="bus-redial")

    async def _redial(self) -> None:
        await self._dial_until_connected()
        log.info("bus.reconnected", url=self.safe_url, epoch=self.epoch)


async def _apart(call: Coroutine[Any, Any, T]) -> T:
    """Await a call of the client's in a task of its own, which goes on by itself if the caller is cancelled.

    The client takes cancellation badly: `asyncio.wait_for`, which it uses, swallows one that comes together with the
    answer (before Python 3.12), and the answer to a cancelled ping breaks its read loop. All these calls end soon.
    """
    task = asyncio.create_task(call)
    _ENDING.add(task)
    task.add_done_callback(_forget)
    await asyncio.wait({task})
    return task.result()


def _forget(ended: asyncio.Task[Any]) -> None:
    _ENDING.discard(ended)
    if not ended.cancelled():
        ended.exception()  # asked for, so that asyncio does not report it as lost


def _without_credentials(server: str) -> str:
    parts = urlsplit(server)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
