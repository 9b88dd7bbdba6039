"""A running pipeline seen from its bus: when a group became free, when a job made a step, what the ledger wrote."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from pydantic import ValidationError

from pipeline import Up
from vitascope.adapters.jetstream import Connection, JetStreamBus, JetStreamRegistry
from vitascope.adapters.jetstream.api import call
from vitascope.contracts.events import Progress
from vitascope.contracts.pools import GroupRow, GroupState
from vitascope.contracts.subjects import BUCKET_JOBS, PROGRESS_ALL
from vitascope.runtime.beside import beside

POOL = "default"
LIMIT_S = 300.0
"""What does not happen within this will not."""


@dataclass
class FleetWatch:
    """The newest rows and progress, kept by two followers.

    Attributes:
        connection: to the pipeline's NATS server.
        rows: group rows by name.
        progress: newest progress of each job.
    """

    connection: Connection
    rows: dict[str, GroupRow] = field(default_factory=dict)
    progress: dict[str, Progress] = field(default_factory=dict)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    async def until(self, is_so: Callable[[], bool]) -> float:
        """Wait for it; the time at which it was so, by `time.time`, which the stages stamp with, too."""
        async with asyncio.timeout(LIMIT_S):
            while not is_so():
                self._news.clear()
                await self._news.wait()
        return time.time()

    def is_sampling(self, job: str, *, but_for: str | None = None) -> bool:
        """Whether a group, other than `but_for`, says that its GPUs work on the job."""
        return any(row.job == job and row.group != but_for for row in self.rows.values())

    def count_idle(self) -> int:
        """Groups that wait for work; a killed one's row says what it did until the next process of that name."""
        return sum(row.state is GroupState.IDLE for row in self.rows.values())

    def group_of(self, job: str) -> str:
        """The group that works on the job."""
        return next(row.group for row in self.rows.values() if row.job == job)

    def step_of(self, job: str, attempt: int = 1) -> int:
        """The newest step of an attempt of the job; -1 before it has begun."""
        progress = self.progress.get(job)
        return progress.step if progress is not None and progress.attempt == attempt else -1

    async def count_ledger_writes(self) -> int:
        """Writes to the ledger since it was made."""
        state = (await call(self.connection, f"STREAM.INFO.KV_{BUCKET_JOBS}"))["state"]
        return int(state["last_seq"])

    async def follow_groups(self) -> None:
        """Keep `rows`."""
        async with JetStreamRegistry(self.connection).watch_groups() as rows:
            async for row in rows:
                if isinstance(row, GroupRow):
                    if row.pool == POOL:  # decode and encode processes have rows, too
                        self.rows[row.group] = row
                elif row is not None:
                    self.rows.pop(row.removeprefix(f"{POOL}."), None)
                self._news.set()

    async def follow_progress(self) -> None:
        """Keep `progress` of the denoise stage."""
        async with JetStreamBus(self.connection).watch_progress(PROGRESS_ALL) as messages:
            async for message in messages:
                with suppress(ValidationError):  # what decode tells encode goes over the same stream
                    progress = Progress.model_validate_json(message)
                    if progress.stage == "denoise":
                        self.progress[progress.job] = progress
                self._news.set()


@asynccontextmanager
async def watching(up: Up) -> AsyncIterator[FleetWatch]:
    """Watch a pipeline on this machine."""
    secrets = json.loads((up.data / "run" / "credentials.json").read_text())
    async with Connection(nats_url(up), user=secrets["nats_user"], password=secrets["nats_password"]) as connection:
        watch = FleetWatch(connection)
        async with beside(watch.follow_groups(), "groups"), beside(watch.follow_progress(), "progress"):
            await watch.until(lambda: bool(watch.rows))
            yield watch


def nats_url(up: Up) -> str:
    """Where the pipeline's NATS server listens."""
    port = json.loads((up.data / "run" / "ports.json").read_text())["nats"]
    return f"nats://127.0.0.1:{port}"
