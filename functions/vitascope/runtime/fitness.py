"""Whether a stage process is fit for work: it must end once a run of its hangs or once it fails its self-test."""

import asyncio
from typing import Any

import structlog

from vitascope.contracts.flow import Stage
from vitascope.runtime.stage import StageHandler

PROVE_S = 120.0
"""So long a self-test may take: it is one small piece of work on a model that is loaded."""

log = structlog.get_logger(__name__)


class Fitness:
    """Shared by the runs of one process.

    Attributes:
        stalled: set once only a restart helps: the process should end, because what hangs cannot be taken back.
        is_ending: whether no work may be begun any more, though the last outcome may still have to be recorded.
        hung: what was given up and has not ended.
    """

    def __init__(self, handler: StageHandler) -> None:
        self._handler: StageHandler = handler
        self._stage: Stage = handler.stage
        self._proven = asyncio.Event()
        self._proven.set()
        self.stalled = asyncio.Event()
        self.is_ending = False
        self.hung: set[asyncio.Task[Any]] = set()

    async def wait_proven(self) -> None:
        """Return when no self-test is due, or when the process drains: what waits then hands its work back."""
        await self._proven.wait()

    def release(self) -> None:
        """The process drains: whoever waits for a self-test finds that out for itself."""
        self._proven.set()

    def give_up(self, run: asyncio.Task[Any]) -> None:
        """Have a run change nothing more, and begin no other work. It may hang for ever: nobody waits for it."""
        self.is_ending = True
        self.hung.add(run)
        run.add_done_callback(self.hung.discard)
        run.cancel()

    async def prove(self, job: str) -> bool:
        """The self-test after memory ran out; no work is begun meanwhile. If it fails the process must end."""
        self._proven.clear()
        proof = asyncio.create_task(self._handler.prove(), name=f"self-test of {self._stage}")
        done, _ = await asyncio.wait({proof}, timeout=PROVE_S)
        if done and not proof.cancelled() and proof.exception() is None:
            log.info("fit for work after an out-of-memory", job=job, stage=self._stage)
            self._proven.set()
            return True
        error = proof.exception() if done and not proof.cancelled() else None
        log.critical("not fit for work after an out-of-memory", job=job, stage=self._stage, exc_info=error)
        self.give_up(proof)
        return False
