"""A TCP relay that damages HTTP on its way to a server."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

HEADERS_MAX_BYTES = 64 * 1024
LENGTH = re.compile(rb"(?i)(content-length: *)(\d+)")


class Relay:
    """Passes everything on, but for what its fields say.

    Attributes:
        lose_bytes: of each PUT body that many last bytes are lost, and the length is changed so that nobody waits.
        zero_bytes: of each PUT body that many last bytes become zero.
        break_after_bytes: the answer to the next GETs breaks off after that many bytes of its connection.
        breaks: how many answers still break off.
        connections: how many connections there have been.
    """

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self.lose_bytes = 0
        self.zero_bytes = 0
        self._serving: set[asyncio.Task[None]] = set()
        self.break_after_bytes = 0
        self.breaks = 0
        self.connections = 0
        self.port = 0

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def close(self) -> None:
        for task in list(self._serving):
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        inside_reader, inside_writer = await asyncio.open_connection(self._host, self._port)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._up(reader, inside_writer))
                tasks.create_task(self._down(inside_reader, writer))
        except* (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            for side in (writer, inside_writer):
                side.close()

    async def _up(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Request by request, so that bodies can be shortened."""
        while True:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:
                writer.close()
                return
            match = LENGTH.search(head)
            length = int(match[2]) if match else 0
            body = await reader.readexactly(length)
            if self.lose_bytes and head.startswith(b"PUT") and length > self.lose_bytes:
                body = body[: -self.lose_bytes]
                head = LENGTH.sub(rb"\g<1>%d" % len(body), head)
            if self.zero_bytes and head.startswith(b"PUT") and length > self.zero_bytes:
                body = body[: -self.zero_bytes] + bytes(self.zero_bytes)
            writer.write(head + body)
            await writer.drain()

    async def _down(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        passed = 0
        while piece := await reader.read(65536):
            passed += len(piece)
            if self.breaks and passed > self.break_after_bytes:
                self.breaks -= 1
                writer.write(piece[: self.break_after_bytes - passed])
                await writer.drain()
                writer.transport.abort()
                raise ConnectionResetError
            writer.write(piece)
            await writer.drain()
        writer.close()


@asynccontextmanager
async def lying_relay(address: str) -> AsyncIterator[Relay]:
    host, _, port = address.partition(":")
    relay = Relay(host, int(port))
    async with await asyncio.start_server(relay.accept, "127.0.0.1", 0, limit=HEADERS_MAX_BYTES) as server:
        relay.port = server.sockets[0].getsockname()[1]
        try:
            yield relay
        finally:
            await relay.close()
