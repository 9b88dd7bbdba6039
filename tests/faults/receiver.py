"""Receives the webhooks of all jobs of a pipeline, and remembers what came."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

HOST = "127.0.0.1"


@dataclass(frozen=True)
class Hook:
    """One webhook as it arrived."""

    id: str
    job: str
    state: str


class Receiver:
    """An address that takes every message. `receiving` starts one."""

    def __init__(self) -> None:
        self.url = ""
        self.hooks: list[Hook] = []

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, with as many messages as it brings."""
        try:
            while line := await reader.readline():
                headers = await _read_headers(reader)
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                if line.startswith(b"POST"):
                    self._note(headers, json.loads(body))
                writer.write(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n")
                await writer.drain()
                break
        except (OSError, asyncio.IncompleteReadError):
            pass  # the sender was killed, or the test is over
        finally:
            writer.close()

    def _note(self, headers: dict[str, str], told: dict[str, Any]) -> None:
        self.hooks.append(Hook(headers["webhook-id"], told["data"]["id"], told["data"]["status"]))


async def _read_headers(reader: asyncio.StreamReader) -> dict[str, str]:
    headers = {}
    while (line := (await reader.readline()).strip()) != b"":
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.strip().lower()] = value.strip()
    return headers


@asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    """A receiver on a free port."""
    receiver = Receiver()
    server = await asyncio.start_server(receiver.take, HOST, 0)
    receiver.url = f"http://{HOST}:{server.sockets[0].getsockname()[1]}/hook"
    async with server:
        yield receiver
