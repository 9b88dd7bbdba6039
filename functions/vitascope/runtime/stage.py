"""The face of a stage: what the stage loop calls, and what it gives."""

import time
from dataclasses import dataclass, field
from typing import Protocol

from vitascope.contracts.events import WorkItem
from vitascope.contracts.flow import Stage

STALL_S = 600.0
"""A handler that shows no sign of life for so long is taken for hung: its event is no longer kept alive. It covers
the slowest single act (a step of the largest bucket, text encoding, the first chunk)."""


@dataclass
class Pulse:
    """The watchdog of one piece of work: the handler touches it at every step or chunk, from any thread."""

    stall_s: float = STALL_S
    touched_s: float = field(default_factory=time.monotonic)

    def touch(self) -> None:
        """A sign of life."""
        self.touched_s = time.monotonic()

    def is_fresh(self) -> bool:
        """Whether the last sign of life is younger than `stall_s`."""
        return time.monotonic() - self.touched_s < self.stall_s


class HandBack(Exception):
    """Raised by a handler that stops because the process drains: the event goes to somebody else at once."""


class StageHandler(Protocol):
    """Works on one event: load, call pure code, save, advance the record, publish the next stage's event."""

    @property
    def stage(self) -> Stage:
        """Which stage it is."""
        ...

    async def handle(self, work: WorkItem, pulse: Pulse) -> None:
        """Do the work and advance the record; returning means done, so the event is acknowledged.

        May run twice for one event; the second run changes nothing.

        Raises:
            StaleAttempt: the record has moved on; the event is dropped.
            HandBack: the process drains; the event is redelivered.
            VitascopeError: the loop retries, or records the failure, by its kind.
        """
        ...

    async def drain(self) -> None:
        """Stop what runs at the next step or chunk, and hand it back; returns at once."""
        ...
