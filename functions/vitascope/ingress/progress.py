"""The newest progress of every job, from one subscription: asking for it costs nothing, however many ask."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

import structlog
from pydantic import ValidationError

from vitascope.contracts.events import Progress
from vitascope.contracts.failures import VitascopeError
from vitascope.contracts.flow import Stage
from vitascope.contracts.subjects import PROGRESS_ALL
from vitascope.runtime.ports import Bus

MAX_JOBS = 10_000
"""Jobs whose progress is kept; those that were silent longest are forgotten first."""
RETRY_S = 1.0
"""Between two tries to follow a bus that cannot be reached; ends with the process."""

log = structlog.get_logger(__name__)


class ProgressIndex:
    """The newest progress by job and stage: decode and encode of one job run side by side."""

    def __init__(self, max_jobs: int = MAX_JOBS) -> None:
        self._max_jobs = max_jobs
        self._newest: dict[str, dict[str, Progress]] = {}
        self._listeners: dict[str, set[asyncio.Event]] = defaultdict(set)

    async def run(self, bus: Bus) -> None:
        """Follow the progress of all jobs until cancelled; goes on by itself after an outage."""
        while True:
            try:
                async with bus.watch_progress(PROGRESS_ALL) as messages:
                    async for message in messages:
                        self._read(message)
            except VitascopeError as error:
                log.warning("progress cannot be followed", error=str(error))
            await asyncio.sleep(RETRY_S)

    def apply(self, progress: Progress) -> None:
        """Take progress in, unless an attempt that is over sent it.

        Within an attempt steps never fall: one that was begun again after an outage says nothing new until it is
        further than before.
        """
        stages = self._newest.pop(progress.job, {})
        known = stages.get(progress.stage)
        if known is None or (known.attempt, known.step) <= (progress.attempt, progress.step):
            stages[progress.stage] = progress
        self._newest[progress.job] = stages  # last in the order: the first is the one silent longest
        if len(self._newest) > self._max_jobs:
            del self._newest[next(iter(self._newest))]
        for news in self._listeners.get(progress.job, ()):
            news.set()

    def find(self, job: str, attempt: int, stage: Stage) -> Progress | None:
        """The newest progress of that stage of that attempt, if any has come."""
        progress = self._newest.get(job, {}).get(stage.value)
        return progress if progress is not None and progress.attempt == attempt else None

    @contextmanager
    def listen(self, job: str, news: asyncio.Event) -> Iterator[None]:
        """Have `news` set whenever progress of the job comes."""
        self._listeners[job].add(news)
        try:
            yield
        finally:
            self._listeners[job].discard(news)
            if not self._listeners[job]:
                del self._listeners[job]

    def _read(self, message: bytes) -> None:
        try:
            progress = Progress.model_validate_json(message)
        except ValidationError:
            return  # what decode tells encode goes over the same stream
        self.apply(progress)
