"""The watchdog of one run: looks at its pulse now and then, and says when it has hung or taken too long."""

from vitascope.contracts.failures import Failure, FailureCode
from vitascope.contracts.flow import Stage
from vitascope.runtime.stage import Pulse

LOOK_MAX_S = 20.0
"""Between two looks no more time than this counts: twice the pause that is meant to be between them. A process that
was stopped (SIGSTOP, a suspended machine) finds a long time gone in which its run could not move either; it must not
take that for the run's silence when it wakes."""
_UNITS = {Stage.DENOISE: "step", Stage.DECODE: "chunk", Stage.ENCODE: "chunk"}


class Watchdog:
    """Counts silence and time of a run, as far as they are the run's own doing.

    Attributes:
        worked_s: seconds that the run was at work.
    """

    def __init__(self, pulse: Pulse, stage: Stage, now_s: float) -> None:
        self._pulse, self._stage = pulse, stage
        self._looked_s, self._touches, self._silent_s = now_s, pulse.touches, 0.0
        self.worked_s = 0.0

    def look(self, now_s: float) -> Failure | None:
        """Why the run has to be given up, or None. `now_s` is a monotonic clock's."""
        passed_s = min(max(now_s - self._looked_s, 0.0), LOOK_MAX_S)
        self._looked_s = now_s
        is_waiting, touches, stall_s = self._pulse.is_waiting, self._pulse.touches, self._pulse.stall_s
        if not is_waiting:
            self.worked_s += passed_s
        self._silent_s = 0.0 if is_waiting or touches != self._touches else self._silent_s + passed_s
        self._touches = touches
        return self._judge(stall_s)

    def _judge(self, stall_s: float) -> Failure | None:
        if self._silent_s >= stall_s:
            detail = f"No {_UNITS[self._stage]} for {self._silent_s:.0f} s, of which {stall_s:.0f} s are allowed."
            return Failure.of(FailureCode.STAGE_STALLED, detail, stage=self._stage)
        limit_s = self._pulse.limits.limit_s
        if self.worked_s >= limit_s:
            detail = f"It was at work for {self.worked_s:.0f} s, of which {limit_s:.0f} s are allowed."
            return Failure.of(FailureCode.STAGE_TIMED_OUT, detail, stage=self._stage)
        return None
