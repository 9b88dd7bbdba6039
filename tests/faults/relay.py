"""A TCP relay between one process and one server, through which every fault of a network can be played."""

import asyncio
import random
from contextlib import suppress
from enum import StrEnum

PIECE_BYTES = 64 * 1024
HEAD_MAX_BYTES = 64 * 1024
BODY_MAX_BYTES = 64 * 1024**2
LOOPBACK = "127.0.0.1"
BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n"
    b"Content-Type: application/xml\r\nContent-Length: %d\r\n\r\n%s"
)
BUSY_BODY = (
    b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
)
TORN_BYTES = (200, 6000)
"""A torn connection ends after so many bytes, in the middle of a head, a body or a NATS message."""


class Mode(StrEnum):
    """What the relay does with what comes."""

    PASS = "pass"
    SLOW = "slow"
    """Each piece waits."""
    STALL = "stall"
    """Nothing passes and nothing is refused: a partition as the two ends see it."""
    CUT = "cut"
    """Connections end and new ones are closed at once: the server is not there."""
    BUSY = "busy"
    """Every HTTP request is answered with 503."""
    TORN = "torn"
    """Connections end in the middle."""


class Relay:
    """Listens on `port` and passes everything on to a server, in the present mode."""

    def __init__(self, name: str, server_port: int, seed: int = 0) -> None:
        self.name, self.port = name, 0
        self._server_port, self._rng = server_port, random.Random(f"{seed}:{name}")
        self._mode, self._delay_s = Mode.PASS, 0.0
        self._open = asyncio.Event()
        self._open.set()
        self._ends: set[asyncio.StreamWriter] = set()
        self._listener: asyncio.Server | None = None

    async def start(self) -> None:
        """Begin to listen."""
        self._listener = await asyncio.start_server(self._serve, LOOPBACK, 0)
        self.port = self._listener.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """End everything."""
        assert self._listener is not None
        self._listener.close()
        self._open.set()
        self._abort()
        await asyncio.sleep(0)

    def become(self, mode: Mode, delay_s: float = 0.0) -> None:
        """Change the mode of all connections, present and future."""
        self._mode, self._delay_s = mode, delay_s
        if mode is Mode.STALL:
            self._open.clear()
        else:
            self._open.set()
        if mode in {Mode.CUT, Mode.BUSY}:
            self._abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._ends.add(writer)
        try:
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                await self._open.wait()
                if self._mode is Mode.BUSY:
                    await _answer_busy(reader, writer)
                elif self._mode is not Mode.CUT:
                    await self._pass(reader, writer)
        finally:
            self._ends.discard(writer)
            writer.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(LOOPBACK, self._server_port)
        self._ends.add(back)
        budget = [self._rng.randint(*TORN_BYTES)]
        pumps = [asyncio.ensure_future(self._pump(*ends, budget)) for ends in ((reader, back), (there, writer))]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            self._ends.discard(back)
            back.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, budget: list[int]) -> None:
        while piece := await reader.read(PIECE_BYTES):
            await self._open.wait()
            if self._delay_s:
                await asyncio.sleep(self._delay_s)
            if self._mode is Mode.TORN:
                piece, budget[0] = piece[: budget[0]], budget[0] - len(piece)
            writer.write(piece)
            await writer.drain()
            if self._mode is Mode.TORN and budget[0] <= 0:
                return

    def _abort(self) -> None:
        for end in self._ends:
            end.transport.abort()


async def _answer_busy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Read one request to its end, as a server does, and refuse it."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = next((int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.startswith(b"content-length:")), 0)
    while 0 < length <= BODY_MAX_BYTES:
        piece = await reader.read(min(length, PIECE_BYTES))
        if not piece:
            return
        length -= len(piece)
    writer.write(BUSY % (len(BUSY_BODY), b"" if head.startswith(b"head ") else BUSY_BODY))
    await writer.drain()
    writer.write_eof()
    await reader.read(PIECE_BYTES)
