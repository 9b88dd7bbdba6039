"""What happens between two steps, in the sampler's thread: sign of life, pace, progress, checkpoint, stop."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from vitascope.denoise.checkpoint import CheckpointSaver
from vitascope.denoise.denoiser import Stopped
from vitascope.denoise.group import GroupHeartbeat
from vitascope.denoise.pace import StepPace
from vitascope.runtime.ports import Clock
from vitascope.runtime.progress import ProgressFeed
from vitascope.runtime.stage import Pulse
from vitascope.runtime.tenure import Halt, Tenure

KEEPS_STATE = frozenset({Halt.DRAIN, Halt.PREEMPT})


@dataclass(frozen=True)
class LastState:
    """Where a drained or preempted run stopped, and for what: the state that another run goes on from."""

    step: int
    blob: bytes
    halt: Halt


class StepBoundary:
    """The step callback of one run; `first_step` is when it was called first."""

    def __init__(
        self,
        *,
        tenure: Tenure,
        pulse: Pulse,
        feed: ProgressFeed,
        group: GroupHeartbeat,
        saver: CheckpointSaver,
        checkpoint_every: int,
        min_step_s: float,
        clock: Clock,
    ) -> None:
        self._tenure, self._pulse, self._feed, self._group, self._saver = tenure, pulse, feed, group, saver
        self._checkpoint_every, self._min_step_s = checkpoint_every, min_step_s
        self._loop = asyncio.get_running_loop()
        self._pace = StepPace()
        self._began_s: float | None = None
        self._clock = clock
        self.last_state: LastState | None = None
        self.first_step: datetime | None = None

    def __call__(self, step: int, steps: int, snapshot: Callable[[], bytes]) -> None:
        """Let the next step begin, or raise `Stopped`.

        A boundary comes after a step, so a run that is preempted or drained before its first step still makes one:
        however often a job is given up, each dispatch brings it at least one step forward, and its number of steps
        bounds how often it can be. After the last step there is nothing to give up: the run ends as usual.
        """
        self._pulse.touch()
        self.first_step = self.first_step or self._clock.now()
        self._loop.call_soon_threadsafe(self._note, step, steps, self._finish_step())
        if step < steps:
            if step % self._checkpoint_every == 0 and not self._tenure.is_halted():
                with self._pulse.waiting():  # for the checkpoint before to be stored
                    self._saver.offer(step, snapshot)
            halt = self._tenure.halt
            if halt in KEEPS_STATE:
                self.last_state = LastState(step, snapshot(), halt)
                raise Stopped
        if self._tenure.halt is Halt.STALE:
            raise Stopped
        self._began_s = time.monotonic()

    def _finish_step(self) -> float | None:
        """Seconds that the step took, `min_step_s` at least; None for the first, which has the preparation in it."""
        if self._began_s is None:
            self._tenure.pause(self._min_step_s)
            return None
        self._tenure.pause(self._min_step_s - (time.monotonic() - self._began_s))
        return time.monotonic() - self._began_s

    def _note(self, step: int, steps: int, seconds: float | None) -> None:
        if seconds is not None:
            self._pace.add(seconds)
            self._group.note_step(self._tenure.record.admission.bucket, seconds)
        self._feed.show(step, steps, self._pace.step_s)
