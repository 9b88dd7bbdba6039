"""Questions to a server on the loopback address. Refused, reset and too slow show as OSError or TimeoutError."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from vitascope.local.ports import LOOPBACK

MAX_ANSWER_BYTES = 64 * 1024


@asynccontextmanager
async def connect(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Yields a connection to 127.0.0.1:`port` and closes it."""
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    try:
        yield reader, writer
    finally:
        writer.close()


async def get(port: int, target: str) -> tuple[int, bytes]:
    """Returns what `ask` does, of a GET."""
    return await ask(port, "GET", target)


async def ask(port: int, method: str, target: str, headers: Mapping[str, str] | None = None) -> tuple[int, bytes]:
    """Returns the status and at least the first MAX_ANSWER_BYTES of the answer; status 0 if it is not HTTP."""
    lines = [f"{method} {target} HTTP/1.0", f"Host: {LOOPBACK}", "Content-Length: 0"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    async with connect(port) as (reader, writer):
        writer.write("".join(f"{line}\r\n" for line in (*lines, "")).encode())
        answer = b""
        while len(answer) < MAX_ANSWER_BYTES and (chunk := await reader.read(MAX_ANSWER_BYTES)):
            answer += chunk
    head, _, body = answer.partition(b"\r\n\r\n")
    words = head.split(None, 2)
    is_http = len(words) > 1 and words[0].startswith(b"HTTP/") and words[1].isdigit()
    return (int(words[1]) if is_http else 0), body
