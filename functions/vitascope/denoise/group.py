"""The group's row in the registry: renewed all the time, and at once when something about it changes."""

from contextlib import AbstractAsyncContextManager

from vitascope.contracts.pools import GroupRow, GroupState
from vitascope.denoise.pace import StepPace
from vitascope.runtime.ports import Clock, Registry
from vitascope.runtime.presence import Presence

MAX_FINISHING = 1
"""Jobs that may be handed on while the sampler takes the next one."""


class GroupHeartbeat:
    """Says what the group is doing. Work goes on while the registry is unreachable; the row follows when it is back.

    Once the group drains, the row says so until it is taken away, whatever still runs.
    """

    def __init__(self, registry: Registry, clock: Clock, row: GroupRow) -> None:
        self._presence = Presence(registry, clock, row)
        self._paces: dict[str, StepPace] = {}

    @property
    def row(self) -> GroupRow:
        """The row as it is said next; `seen` is the time of the last renewal."""
        return self._presence.row

    def beating(self) -> AbstractAsyncContextManager[None]:
        """Keeps the row alive during the block and takes it away at its end."""
        return self._presence.beating()

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
        self._set_finishing((*self.row.finishing, handing_on) if handing_on else self.row.finishing, job=None)

    def handed_on(self, job: str) -> None:
        """The job is no longer this group's, or will be delivered again."""
        if job in self.row.finishing:
            self._set_finishing(tuple(other for other in self.row.finishing if other != job), job=self.row.job)

    def drain(self) -> None:
        """No more work for this group."""
        self._change(state=GroupState.DRAINING)

    def note_step(self, bucket: str, seconds: float) -> None:
        """A step of a job of that bucket took so long; said with the next renewal."""
        average_s = self._paces.setdefault(bucket, StepPace()).add(seconds)
        self._presence.note(step_s={**self.row.step_s, bucket: average_s})

    def _set_finishing(self, finishing: tuple[str, ...], *, job: str | None) -> None:
        is_idle = job is None and len(finishing) <= MAX_FINISHING
        self._change(
            state=GroupState.IDLE if is_idle else GroupState.BUSY,
            job=job,
            attempt=None if job is None else self.row.attempt,
            finishing=finishing,
        )

    def _change(self, **changes: object) -> None:
        if self.row.state is GroupState.DRAINING:
            changes["state"] = GroupState.DRAINING
        self._presence.change(**changes)
