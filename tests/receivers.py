"""An HTTP server on loopback that receives webhooks and behaves as its path says: politely, slowly, or badly."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

DRIP_S = 0.2
MAX_BODY_BYTES = 64 * 1024


@dataclass(frozen=True)
class Received:
    """One message."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        """The `webhook-id`."""
        return self.headers["webhook-id"]


@dataclass
class Receiver:
    """Does what the path of a message says; what it does not know it answers with 200.

    `/flaky` fails once a message, `/down` answers 503, `/gone` 410, `/hang` says nothing, `/drip` never ends its
    headers, `/noise` speaks no HTTP, `/redirect` points to `/inside`, and `/flood` answers without end.
    """

    url: str = ""
    received: list[Received] = field(default_factory=list)
    flooded_bytes: int = 0

    def ids(self, path: str) -> list[str]:
        """What came to a path, in order."""
        return [message.id for message in self.received if message.path == path]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection: one message."""
        try:
            message = await _read(reader)
            self.received.append(message)
            await self._behave(message, writer)
        except (OSError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def _behave(self, message: Received, writer: asyncio.StreamWriter) -> None:
        bad: dict[str, Callable[[asyncio.StreamWriter], Awaitable[None]]] = {
            "/hang": _hang,
            "/drip": _drip,
            "/flood": self._flood,
        }
        plain = {"/down": 503, "/gone": 410}
        if message.path in bad:
            await bad[message.path](writer)
            return
        if message.path == "/noise":
            writer.write(b"\x00\xff\xfe not http at all\r\n\r\n" * 100)
        elif message.path == "/redirect":
            writer.write(b"HTTP/1.1 307 Temporary Redirect\r\nLocation: /inside\r\nContent-Length: 0\r\n\r\n")
        elif message.path == "/flaky" and self.ids("/flaky").count(message.id) == 1:
            writer.write(_answer(500))
        else:
            writer.write(_answer(plain.get(message.path, 200)))
        await writer.drain()

    async def _flood(self, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000000\r\n\r\n")
        while True:
            writer.write(b"x" * 65536)
            self.flooded_bytes += 65536
            await writer.drain()


@asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    """A receiver until the block ends; connections that are still open are cut."""
    receiver = Receiver()
    tasks: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(receiver.serve(reader, writer), name="receiver")
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    receiver.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield receiver
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()


async def _read(reader: asyncio.StreamReader) -> Received:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    length = int(headers.get("content-length", "0"))
    assert length <= MAX_BODY_BYTES
    return Received(head[0].split()[1], headers, await reader.readexactly(length))


async def _hang(_writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def _drip(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        writer.write(b"X-More: 1\r\n")
        await writer.drain()
        await asyncio.sleep(DRIP_S)


def _answer(status: int) -> bytes:
    return f"HTTP/1.1 {status} Said\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok".encode()
