"""Follows decode: knows which pixel chunks are in the store, and how many there will be."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog
from pydantic import ValidationError

from vitascope.contracts.events import FramesReady
from vitascope.contracts.failures import VitascopeError
from vitascope.contracts.objects import chunk_key
from vitascope.contracts.subjects import frames_subject
from vitascope.runtime.beside import beside
from vitascope.runtime.ports import Bus, ObjectStore
from vitascope.runtime.stage import HandBack
from vitascope.runtime.tenure import Tenure

RECHECK_S = 3.0
"""Announcements may be lost: so often the store itself is asked for the chunk that is due."""
PATIENCE_S = 900.0
"""After so long without the next chunk the place goes to another clip; the event comes again."""

log = structlog.get_logger(__name__)


class ChunkFollower:
    """Waits for the chunks of one attempt. Announcements, the record and the store all count; each can be late."""

    def __init__(self, *, bus: Bus, store: ObjectStore, tenure: Tenure) -> None:
        self._bus, self._store, self._tenure = bus, store, tenure
        self._stored = 0
        self._announced_total: int | None = None

    @property
    def total(self) -> int | None:
        """How many chunks there are; None while decode is still at work."""
        return self._tenure.record.run.chunks if self._announced_total is None else self._announced_total

    @asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        """Listens to announcements during the block."""
        async with beside(self._listen(), name=f"chunks of {self._tenure.work.job}"):
            yield

    async def wait_for(self, index: int) -> bool:
        """Wait until the chunk is in the store; False if the clip has no such chunk.

        Raises:
            StaleAttempt, HandBack: the work has to stop, or nothing came for `PATIENCE_S`.
            VitascopeError: the store cannot be reached.
        """
        deadline_s = asyncio.get_running_loop().time() + PATIENCE_S
        while not self._is_decided(index):
            try:
                async with asyncio.timeout(RECHECK_S):
                    await self._tenure.wait_until(lambda _: self._is_decided(index))
            except TimeoutError:
                await self._look(index)
            if asyncio.get_running_loop().time() > deadline_s:
                raise HandBack
        self._tenure.check()
        return self.total is None or index < self.total

    def _is_decided(self, index: int) -> bool:
        return index < self._stored or self.total is not None

    async def _look(self, index: int) -> None:
        key = chunk_key(self._tenure.record, self._tenure.work.attempt, index)
        if await self._store.size(key) is not None:
            self._stored = max(self._stored, index + 1)

    async def _listen(self) -> None:
        work = self._tenure.work
        try:
            async with self._bus.watch_progress(frames_subject(work.tenant, work.job, work.attempt)) as messages:
                async for message in messages:
                    self._note(FramesReady.model_validate_json(message))
        except (VitascopeError, ValidationError) as error:
            log.warning("chunks not announced", job=work.job, stage=work.stage, attempt=work.attempt, error=str(error))

    def _note(self, ready: FramesReady) -> None:
        # A repeated decode counts from one again; what was stored before is still there.
        self._stored = max(self._stored, ready.chunks)
        if ready.done:
            self._announced_total = ready.chunks
        self._tenure.announce()
