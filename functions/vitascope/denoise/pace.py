"""How long a step takes: robust against single slow steps, and following a change within some steps."""

from collections import deque
from statistics import median

WINDOW_STEPS = 5
"""The median of so many steps: two outliers among them (a page fault storm, a checkpoint in the way) count nothing."""
NEWEST_SHARE = 0.2
"""Weight of the newest median in the running average: half of the memory is gone after three steps."""


class StepPace:
    """Running average of seconds a step: an exponential average over moving medians."""

    def __init__(self) -> None:
        self._window: deque[float] = deque(maxlen=WINDOW_STEPS)
        self._average_s: float | None = None

    @property
    def step_s(self) -> float | None:
        """Seconds a step; None before the first."""
        return self._average_s

    def add(self, seconds: float) -> float:
        """Count one step; gives the new average."""
        self._window.append(seconds)
        middle_s = median(self._window)
        last_s = middle_s if self._average_s is None else self._average_s
        self._average_s = last_s + NEWEST_SHARE * (middle_s - last_s)
        return self._average_s
