"""A job's progress as people see it: never backwards, never faster than anybody reads."""

import asyncio
from types import TracebackType
from typing import Self

import structlog

from vitascope.contracts.events import Progress
from vitascope.contracts.failures import VitascopeError
from vitascope.contracts.flow import Stage
from vitascope.contracts.jobs import JobRecord
from vitascope.contracts.subjects import progress_subject
from vitascope.runtime.ports import Bus, Clock

INTERVAL_S = 0.2
"""At most five messages a second; the first and the last are always sent."""

log = structlog.get_logger(__name__)


class ProgressFeed:
    """Publishes the progress of one stage of one attempt; one message in flight at a time.

    A context manager: at its end, what was shown last has been sent.
    """

    def __init__(self, bus: Bus, clock: Clock, record: JobRecord, stage: Stage) -> None:
        self._bus, self._clock, self._record, self._stage = bus, clock, record, stage
        self._subject = progress_subject(record.request.tenant, record.id)
        self._shown = -1
        self._not_before_s = 0.0
        self._due: Progress | None = None
        self._sending: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.flush()

    def show(self, step: int, steps: int, step_s: float | None = None) -> None:
        """The stage has done `step` of `steps`; call in the event loop's thread.

        Args:
            step: units done; a smaller number than before, or the same, shows nothing.
            steps: units in all.
            step_s: seconds a unit takes, if known.
        """
        if step <= self._shown:
            return
        is_first, self._shown = self._shown < 0, step
        now_s = asyncio.get_running_loop().time()
        if not is_first and step < steps and now_s < self._not_before_s:
            return
        self._not_before_s = now_s + INTERVAL_S
        self._due = Progress(
            job=self._record.id,
            attempt=self._record.run.attempt,
            stage=self._stage.value,
            step=step,
            steps=steps,
            step_s=step_s,
            remaining_s=None if step_s is None else step_s * (steps - step),
            time=self._clock.now(),
        )
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send(), name=f"progress of {self._record.id}")

    async def flush(self) -> None:
        """Wait until what was shown has been sent."""
        if self._sending is not None:
            await self._sending

    async def _send(self) -> None:
        while (progress := self._due) is not None:
            self._due = None
            try:
                await self._bus.publish_progress(self._subject, progress)
            except VitascopeError as error:
                log.debug("progress not sent", job=progress.job, attempt=progress.attempt, error=str(error))
