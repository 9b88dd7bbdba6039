"""The event streams that are open: how many, and their common end when the door closes."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class OpenStreams:
    """Streams from their first byte to their end."""

    def __init__(self) -> None:
        self.is_closing = False
        self._wakes: set[asyncio.Event] = set()

    @property
    def count(self) -> int:
        """How many are open."""
        return len(self._wakes)

    @contextmanager
    def opened(self, wake: asyncio.Event) -> Iterator[None]:
        """One stream more while the block lasts; `wake` is set when it has to look at `is_closing`."""
        self._wakes.add(wake)
        try:
            yield
        finally:
            self._wakes.discard(wake)

    def close(self) -> None:
        """Have all of them end now, so that nobody waits for them; their clients come back to another replica."""
        self.is_closing = True
        for wake in self._wakes:
            wake.set()
