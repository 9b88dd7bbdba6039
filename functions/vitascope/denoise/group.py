"""The group's row in the registry: renewed all the time, and at once when something about it changes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog

from vitascope.contracts.failures import VitascopeError
from vitascope.contracts.pools import HEARTBEAT_S, GroupRow, GroupState
from vitascope.denoise.pace import StepPace
from vitascope.runtime.beside import beside
from vitascope.runtime.ports import Clock, Registry

MAX_FINISHING = 1
"""Jobs that may be handed on while the sampler takes the next one."""

log = structlog.get_logger(__name__)


class GroupHeartbeat:
    """Says what the group is doing. Work goes on while the registry is unreachable; the row follows when it is back.

    Once the group drains, the row says so until it is taken away, whatever still runs.
    """

    def __init__(self, registry: Registry, clock: Clock, row: GroupRow) -> None:
        self._registry, self._clock, self._row = registry, clock, row
        self._changed = asyncio.Event()
        self._paces: dict[str, StepPace] = {}

    @property
    def row(self) -> GroupRow:
        """The row as it is said next; `seen` is the time of the last renewal."""
        return self._row

    @asynccontextmanager
    async def beating(self) -> AsyncIterator[None]:
        """Keeps the row alive during the block and takes it away at its end."""
        try:
            async with beside(self._beat(), name=f"heartbeat of {self._row.group}"):
                yield
        finally:
            try:
                await self._registry.remove_group(self._row)
            except VitascopeError as error:
                log.warning("group row left to expire", group=self._row.group, error=str(error))

    def ready(self) -> None:
        """The models are loaded: work may come."""
        self._change(state=GroupState.IDLE)

    def begin(self, job: str, attempt: int) -> None:
        """The sampler works on a job from now on."""
        self._change(state=GroupState.BUSY, job=job, attempt=attempt)

    def end(self, *, handing_on: str | None = None) -> None:
        """The sampler is free again; `handing_on` is the job whose latents are on their way from now on.

        Work may come beside one such job. With more of them the row stays busy, so that no job waits here that
        another group could take.
        """
        self._set_finishing((*self._row.finishing, handing_on) if handing_on else self._row.finishing, job=None)

    def handed_on(self, job: str) -> None:
        """The job is no longer this group's, or will be delivered again."""
        if job in self._row.finishing:
            self._set_finishing(tuple(other for other in self._row.finishing if other != job), job=self._row.job)

    def drain(self) -> None:
        """No more work for this group."""
        self._change(state=GroupState.DRAINING)

    def note_step(self, bucket: str, seconds: float) -> None:
        """A step of a job of that bucket took so long; said with the next renewal."""
        average_s = self._paces.setdefault(bucket, StepPace()).add(seconds)
        self._row = self._row.model_copy(update={"step_s": {**self._row.step_s, bucket: average_s}})

    def _set_finishing(self, finishing: tuple[str, ...], *, job: str | None) -> None:
        is_idle = job is None and len(finishing) <= MAX_FINISHING
        self._change(
            state=GroupState.IDLE if is_idle else GroupState.BUSY,
            job=job,
            attempt=None if job is None else self._row.attempt,
            finishing=finishing,
        )

    def _change(self, **changes: object) -> None:
        if self._row.state is GroupState.DRAINING:
            changes["state"] = GroupState.DRAINING
        self._row = self._row.model_copy(update=changes)
        self._changed.set()

    async def _beat(self) -> None:
        while True:
            self._changed.clear()
            await self._renew()
            try:
                await asyncio.wait_for(self._changed.wait(), HEARTBEAT_S)
            except TimeoutError:
                continue

    async def _renew(self) -> None:
        self._row = self._row.model_copy(update={"seen": self._clock.now()})
        try:
            await self._registry.put_group(self._row)
        except VitascopeError as error:
            log.warning("group row not renewed", group=self._row.group, error=str(error))
