"""The time by which things in memory expire: the machine's, or one that a test holds."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

HELD_START = datetime(2026, 1, 1, tzinfo=UTC)
"""The time of day at which held time starts; any would do, a fixed one repeats."""


class Timing(Protocol):
    """Seconds that only rise, a way to wait for them, and the time of day."""

    def now(self) -> datetime:
        """The time of day, UTC."""
        ...

    def now_s(self) -> float:
        """Seconds since an arbitrary start."""
        ...

    async def wait(self, news: asyncio.Event, until_s: float | None) -> None:
        """Return once `news` is set or the time has come, whichever is first; may return earlier."""
        ...


class MachineTime:
    """The machine's clocks."""

    def now(self) -> datetime:
        """The time of day, UTC."""
        return datetime.now(UTC)

    def now_s(self) -> float:
        """Seconds of the machine's monotonic clock."""
        return time.monotonic()

    async def wait(self, news: asyncio.Event, until_s: float | None) -> None:
        """Wait for news, or until the moment."""
        try:
            async with asyncio.timeout(None if until_s is None else max(0.0, until_s - self.now_s())):
                await news.wait()
        except TimeoutError:
            return


class HeldTime:
    """A clock that stands still until it is moved; also a `runtime.ports.Clock`."""

    def __init__(self) -> None:
        self._elapsed_s = 0.0
        self._waiting: set[asyncio.Event] = set()

    def now(self) -> datetime:
        """The time of day, UTC."""
        return HELD_START + timedelta(seconds=self._elapsed_s)

    def now_s(self) -> float:
        """Seconds that the clock was moved by so far."""
        return self._elapsed_s

    def advance(self, seconds: float) -> None:
        """Move the clock, and let everybody who waits look at it."""
        assert seconds >= 0, "time does not go back"
        self._elapsed_s += seconds
        for news in self._waiting:
            news.set()

    async def wait(self, news: asyncio.Event, until_s: float | None) -> None:
        """Wait for news, or for the next move of the clock."""
        if until_s is not None and until_s <= self._elapsed_s:
            return
        self._waiting.add(news)
        try:
            await news.wait()
        finally:
            self._waiting.discard(news)
