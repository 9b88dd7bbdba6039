"""How far a stage may go, and the learning rate on the way there."""

import math
import time
from dataclasses import dataclass, field
from typing import Final

FLOOR: Final = 0.03  # of the peak, at the end


@dataclass(frozen=True)
class Budget:
    """A stage ends at ``steps`` or ``minutes`` after its start, whichever comes first."""

    steps: int
    minutes: float
    started_s: float = field(default_factory=time.monotonic)

    def elapsed_s(self) -> float:
        """Seconds since the stage began in this run."""
        return time.monotonic() - self.started_s

    def progress(self, step: int) -> float:
        """Share of the budget used, 0..1, by the scarcer of steps and time."""
        return min(1.0, max(step / self.steps, self.elapsed_s() / (60 * self.minutes)))


def compute_cosine(progress: float, step: int, *, peak: float, warm_steps: int) -> float:
    """Linear warm-up over the first steps of a run, then a cosine down to the floor."""
    rate = FLOOR + (1 - FLOOR) * 0.5 * (1 + math.cos(math.pi * progress))
    return peak * rate * min(1.0, (step + 1) / warm_steps)


def compute_plateau(progress: float, step: int, *, peak: float, warm_steps: int) -> float:
    """Linear warm-up over the first steps of a run, flat for half of the budget, then linear down to the floor."""
    rate = FLOOR + (1 - FLOOR) * min(1.0, 2 * (1 - progress))
    return peak * rate * min(1.0, (step + 1) / warm_steps)
