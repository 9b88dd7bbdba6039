"""Is this process alive, and may it be given work: what probes are told."""

from vitascope.runtime.ports import Bus
from vitascope.runtime.stage_loop import StageLoop


class Health:
    """The answers to the probes of one stage process, computed anew at each question; never blocks.

    Attributes:
        is_loaded: set by the process once its model is loaded.
    """

    def __init__(self, bus: Bus, loop: StageLoop) -> None:
        self._bus, self._loop = bus, loop
        self.is_loaded = False

    @property
    def is_live(self) -> bool:
        """False means that only a restart helps: a handler hangs."""
        return not self._loop.stalled.is_set()

    @property
    def is_ready(self) -> bool:
        """Whether it takes work."""
        return self.compute_obstacle() is None

    def compute_obstacle(self) -> str | None:
        """Why it takes no work, in words; None if it does."""
        if not self.is_live:
            return "The stage hangs."
        if self._loop.is_draining:
            return "The process is draining."
        if not self.is_loaded:
            return "The model is being loaded."
        if not self._bus.is_connected():
            return "The bus cannot be reached."
        return None
