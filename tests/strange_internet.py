"""A small internet on this machine for tests: a name server, web servers on two addresses, and a resolver that asks.

`OUTSIDE` plays the public internet, by being let in; `INSIDE` is a private address that nobody may reach.
"""

import asyncio
import ssl
import struct
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import IPv4Address, ip_address, ip_network
from typing import cast

from vitascope.outbound import AddressRules, IpAddress, Outbound

OUTSIDE, INSIDE = "127.0.0.1", "127.0.0.2"
LET_IN = (ip_network("127.0.0.1/32"),)
SECRET = b"the secret of the inside"
A_RECORD = 1

Handler = Callable[["Exchange"], Awaitable[None]]


@dataclass
class Exchange:
    """One request, and the way to answer it."""

    method: str
    path: str
    headers: dict[str, str]
    writer: asyncio.StreamWriter

    async def answer(self, body: bytes = b"", status: int = 200, **headers: str) -> None:
        """A whole answer; `content_length` says something else than the truth."""
        fields = {"content_length": str(len(body)), **headers}
        lines = [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
        await self.send(f"HTTP/1.1 {status} X\r\n".encode() + "".join(f"{line}\r\n" for line in lines).encode())
        await self.send(b"\r\n" + body)

    async def send(self, content: bytes) -> None:
        """Bytes as they are."""
        self.writer.write(content)
        await self.writer.drain()


@dataclass
class Names(asyncio.DatagramProtocol):
    """A name server: each name with what it answers, one answer after the other; the last one stays."""

    answers: dict[str, list[list[str]]] = field(default_factory=dict)
    asked: Counter[str] = field(default_factory=Counter)
    transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        name, end = _read_name(data, 12)
        self.asked[name] += 1
        turns = self.answers.get(name, [[]])
        addresses = turns.pop(0) if len(turns) > 1 else turns[0]
        code = 0x8180 if addresses else 0x8183  # no such name
        header = data[:2] + struct.pack(">HHHHH", code, 1, len(addresses), 0, 0)
        records = b"".join(
            b"\xc0\x0c" + struct.pack(">HHIH", A_RECORD, 1, 0, 4) + IPv4Address(address).packed for address in addresses
        )
        assert self.transport is not None
        self.transport.sendto(header + data[12 : end + 4] + records, addr)


@dataclass(frozen=True)
class Asking:
    """A resolver that asks one name server, and remembers nothing."""

    port: int

    async def resolve(self, host: str) -> Sequence[IpAddress]:
        """See `vitascope.outbound.Resolver`."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[bytes] = loop.create_future()
        transport, _ = await loop.create_datagram_endpoint(lambda: _Once(answer), remote_addr=(OUTSIDE, self.port))
        try:
            labels = b"".join(bytes([len(label)]) + label.encode() for label in host.split("."))
            transport.sendto(struct.pack(">HHHHHH", 7, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">HH", 1, 1))
            data = await answer
        finally:
            transport.close()
        _, end = _read_name(data, 12)
        count, at, found = struct.unpack(">H", data[6:8])[0], end + 4, []
        for _ in range(count):
            found.append(ip_address(data[at + 12 : at + 16]))
            at += 16
        return found


@dataclass
class _Once(asyncio.DatagramProtocol):
    answer: asyncio.Future[bytes]

    def datagram_received(self, data: bytes, _addr: tuple[str, int]) -> None:
        if not self.answer.done():
            self.answer.set_result(data)


@dataclass
class Internet:
    """Names, and pages by path on both addresses at one port."""

    port: int
    dns_port: int
    names: Names
    pages: dict[str, Handler] = field(default_factory=dict)
    seen: list[Exchange] = field(default_factory=list)
    inside: list[str] = field(default_factory=list)

    def url(self, path: str, host: str = OUTSIDE, scheme: str = "http") -> str:
        """Of a page."""
        return f"{scheme}://{host}:{self.port}{path}"

    def name(self, host: str, *turns: list[str]) -> None:
        """Let the name have these addresses, one list at each look-up."""
        self.names.answers[host] = list(turns)

    def page(self, path: str, body: bytes = b"", status: int = 200, **headers: str) -> str:
        """A page on the outside; its URL."""

        async def handle(exchange: Exchange) -> None:
            await exchange.answer(body, status, **headers)

        self.pages[path] = handle
        return self.url(path)

    def redirect(self, path: str, location: str, status: int = 302) -> str:
        """A page that points elsewhere; its URL."""
        return self.page(path, status=status, location=location)

    def outbound(self, *, follow_redirects: bool = True, ssl_context: ssl.SSLContext | None = None) -> Outbound:
        """A client that may reach the outside, and asks this name server."""
        rules = AddressRules(follow_redirects=follow_redirects, allowed=LET_IN)
        return Outbound(rules, resolver=Asking(self.dns_port), ssl_context=ssl_context)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            method, path, _ = head[0].split(" ")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
            exchange = Exchange(method, path, headers, writer)
            if writer.get_extra_info("sockname")[0] == INSIDE:
                self.inside.append(path)
                await exchange.answer(SECRET)
                return
            self.seen.append(exchange)
            await self.pages[path](exchange)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def open_internet(ssl_context: ssl.SSLContext | None = None) -> AsyncIterator[Internet]:
    """A new one, gone at the end."""
    loop = asyncio.get_running_loop()
    async with AsyncExitStack() as stack:
        transport, names = await loop.create_datagram_endpoint(Names, local_addr=(OUTSIDE, 0))
        stack.callback(transport.close)
        internet = Internet(0, transport.get_extra_info("sockname")[1], names)
        outside = await asyncio.start_server(internet.serve, OUTSIDE, 0, ssl=ssl_context)
        stack.callback(outside.close)
        internet.port = outside.sockets[0].getsockname()[1]
        inside = await asyncio.start_server(internet.serve, INSIDE, internet.port, ssl=ssl_context)
        stack.callback(inside.close)
        yield internet


def _read_name(data: bytes, at: int) -> tuple[str, int]:
    labels = []
    while data[at]:
        labels.append(data[at + 1 : at + 1 + data[at]].decode())
        at += 1 + data[at]
    return ".".join(labels), at + 1
