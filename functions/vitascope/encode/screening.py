"""The last look at a finished clip: which frames are shown to the screen, and asking it before anything is uploaded."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, repeat

from vitascope.runtime.persist import persist
from vitascope.runtime.stage import Pulse
from vitascope.runtime.tenure import Tenure
from vitascope.screen.ports import Finding, OutputScreen, Still

STILL_MAX_PX = 512
"""The longer side of a still: more than models look at, and small enough to send."""


@dataclass(frozen=True)
class Screening:
    """The screen, and how many frames of each clip it sees."""

    screen: OutputScreen
    stills: int

    def pick(self, num_frames: int) -> frozenset[int]:
        """The frames of a clip that the screen sees."""
        return pick_frames(num_frames, self.stills)

    async def check(self, stills: Sequence[Still], tenure: Tenure, pulse: Pulse) -> Finding | None:
        """What the screen finds; while it cannot tell, it is asked again, as an object store would be.

        Raises:
            StaleAttempt, HandBack: the work has to stop.
            VitascopeError: `screen_unavailable`, it could not tell for too long.
        """
        checks = chain([tenure.check_stale], repeat(tenure.check))  # the first answer is worth the wait of a drain

        async def ask() -> Finding | None:
            next(checks)()
            return await self.screen.check(stills)

        return await persist(ask, pulse, job=tenure.work.job)


def pick_frames(num_frames: int, stills: int) -> frozenset[int]:
    """Which frames are shown, counted from 0: spread evenly, the first and last among them, or the middle one. Pure."""
    if stills == 1:
        return frozenset({num_frames // 2})
    return frozenset(round(place * (num_frames - 1) / (stills - 1)) for place in range(stills))
