"""Sees everything that the pipeline stores and says, over a connection of its own that no relay touches."""

import asyncio
import json
import time
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import nats
import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

LEDGER, EVENTS = "KV_VITASCOPE_JOBS", "VITASCOPE_EVENTS"
WORK = "VITASCOPE_WORK"
POLL_S = 0.1
TIMEOUT_S = 5.0
AWAY = (nats.errors.Error, OSError, asyncio.TimeoutError)


@dataclass
class Seen:
    """A message, when it was seen, and the birth of the stream that held it."""

    t: float
    birth: str
    sequence: int
    subject: str
    headers: dict[str, str]
    data: bytes

    def json(self) -> Any:
        """The message as JSON."""
        return json.loads(self.data)


@dataclass
class Account:
    """What was seen."""

    ledger: list[Seen] = field(default_factory=list)
    events: list[Seen] = field(default_factory=list)
    progress: list[Seen] = field(default_factory=list)
    work: list[Seen] = field(default_factory=list)

    def newest_records(self) -> dict[str, dict[str, Any]]:
        """The newest record of each job."""
        return {seen.subject.rpartition(".")[2]: seen.json() for seen in self.ledger if seen.data}


class Witness:
    """Follows the ledger and the public events message by message, and listens to progress and work."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.seen = Account()
        self.client: Client
        self._tasks: list[asyncio.Task[None]] = []
        self.news = asyncio.Event()
        self._at: dict[str, tuple[str, int]] = {}

    async def __aenter__(self) -> Self:
        self.client = await nats.connect(
            self._url,
            max_reconnect_attempts=-1,
            reconnect_time_wait=0.1,
            error_cb=_ignore,
        )
        await self.client.subscribe("vitascope.progress.*.*", cb=self._hear(self.seen.progress))
        await self.client.subscribe("vitascope.work.>", cb=self._hear(self.seen.work))
        for stream, found in ((LEDGER, self.seen.ledger), (EVENTS, self.seen.events)):
            self._tasks.append(asyncio.create_task(self._follow(stream, found), name=f"witness {stream}"))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with suppress(*AWAY):
            await asyncio.wait_for(self.client.close(), TIMEOUT_S)

    async def ask(self, subject: str, body: object = None) -> dict[str, Any]:
        """An answer of JetStream's API."""
        payload = json.dumps(body).encode() if body is not None else b""
        answer = await self.client.request(f"$JS.API.{subject}", payload, timeout=TIMEOUT_S)
        told: dict[str, Any] = json.loads(answer.data)
        return told

    async def catch_up(self) -> None:
        """Return when everything that is stored now has been seen."""
        for stream in (LEDGER, EVENTS):
            info = await self.ask(f"STREAM.INFO.{stream}")
            wanted = (info["created"], info["state"]["last_seq"])
            async with asyncio.timeout(60):
                while self._at.get(stream, ("", 0)) < wanted:  # noqa: ASYNC110 (what is waited for comes by polling)
                    await asyncio.sleep(POLL_S)

    async def list_work(self) -> list[str]:
        """The subjects of work that is left."""
        info = await self.ask(f"STREAM.INFO.{WORK}", {"subjects_filter": ">"})
        return sorted(info["state"].get("subjects") or {})

    async def list_consumers(self) -> dict[str, dict[str, Any]]:
        """The consumers of the work stream."""
        told = await self.ask(f"CONSUMER.LIST.{WORK}", {})
        return {consumer["name"]: consumer for consumer in told["consumers"]}

    def _hear(self, found: list[Seen]) -> Any:
        async def hear(message: Msg) -> None:
            found.append(
                Seen(time.monotonic(), "", 0, message.subject, dict(message.headers or {}), bytes(message.data))
            )

        return hear

    async def _follow(self, stream: str, found: list[Seen]) -> None:
        jetstream = self.client.jetstream(timeout=TIMEOUT_S)
        birth, sequence = "", 0
        while True:
            with suppress(*AWAY, KeyError, json.JSONDecodeError):
                info = await self.ask(f"STREAM.INFO.{stream}")
                if info["created"] != birth:
                    birth, sequence = info["created"], 0
                while sequence < info["state"]["last_seq"]:
                    try:
                        stored = await jetstream.get_msg(stream, seq=sequence + 1, subject=">", next=True)
                    except nats.js.errors.NotFoundError:
                        sequence = info["state"]["last_seq"]  # the last one was removed
                        break
                    sequence = int(stored.seq or 0)
                    headers = dict(stored.headers or {})
                    data = bytes(stored.data or b"")
                    found.append(Seen(time.monotonic(), birth, sequence, str(stored.subject), headers, data))
                    self.news.set()
                self._at[stream] = (birth, sequence)
            await asyncio.sleep(POLL_S)


async def _ignore(_error: Exception) -> None:
    """Outages are what this is made for."""
