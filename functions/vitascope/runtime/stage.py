"""The face of a stage: what the stage loop calls, and what it gives."""

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from vitascope.contracts.deadlines import PACE_STEPS, UNREAD, StageLimits, compute_stall_s
from vitascope.contracts.events import WorkItem
from vitascope.contracts.flow import Stage


class Pulse:
    """The signs of life of one piece of work; a handler may give them from any thread.

    Attributes:
        limits: what the run may take.
        touches: signs of life so far.
    """

    def __init__(self) -> None:
        self.limits: StageLimits = UNREAD
        self.touches = 0
        self._lock = threading.Lock()
        self._steps_s: deque[float] = deque(maxlen=PACE_STEPS)
        self._step_began_s: float | None = None
        self._step_thread = 0
        self._waits = 0

    @property
    def is_waiting(self) -> bool:
        """Whether the work waits for something that is not its own: silence is no fault of it then."""
        return self._waits > 0

    @property
    def stall_s(self) -> float:
        """The silence that is allowed now, in seconds."""
        with self._lock:
            return compute_stall_s(self.limits, list(self._steps_s))

    def expect(self, limits: StageLimits) -> None:
        """The record has been read: these limits hold."""
        self.limits = limits

    def touch(self) -> None:
        """A step or a chunk is done."""
        now_s = time.monotonic()
        with self._lock:
            self.touches += 1
            if self._step_began_s is not None:
                self._steps_s.append(now_s - self._step_began_s)
            self._step_began_s, self._step_thread = now_s, threading.get_ident()

    def begin(self) -> None:
        """What follows has another pace than what was: the longer allowance holds until two of its steps are done."""
        with self._lock:
            self.touches += 1
            self._steps_s.clear()
            self._step_began_s = None

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """The work waits for a server or for another stage during the block, which must end by itself in time.

        Such a wait is no part of the run's time, nor of the step that the same thread is about to make.
        """
        with self._lock:
            self._waits += 1
        try:
            yield
        finally:
            with self._lock:
                self._waits -= 1
                self.touches += 1
                if self._step_began_s is not None and self._step_thread == threading.get_ident():
                    self._step_began_s = time.monotonic()


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

        May run twice for one event; the second run changes nothing. A run that is cancelled changes nothing more.

        Raises:
            StaleAttempt: the record has moved on; the event is dropped.
            HandBack: the process drains; the event is redelivered.
            VitascopeError: the loop retries, or records the failure, by its kind.
        """
        ...

    async def drain(self) -> None:
        """Stop what runs at the next step or chunk, and hand it back; returns at once."""
        ...

    async def prove(self) -> None:
        """Show, by the smallest piece of real work, that the process is still fit for work after memory ran out.

        Raises:
            Exception: it is not.
        """
        ...
