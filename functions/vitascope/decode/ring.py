"""A bounded hand-over from a thread to the event loop: the thread waits while what it made is still being stored."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from dataclasses import dataclass

SLOTS = 2
MAX_BYTES = 256 * 2**20


@dataclass(frozen=True)
class Piece:
    """A part of a clip, as it is stored: pixels, or the sound if `frames` is 0."""

    content: bytes
    frames: int


class RingClosed(Exception):
    """Nobody takes any more."""


class Ring:
    """At most two pieces and 256 MiB between the thread that makes them and the loop that stores them.

    The one that is being stored counts. A single piece may be larger, else it could never pass.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Condition()
        self._waiting: deque[Piece] = deque()
        self._held = 0
        self._held_bytes = 0
        self._is_closed = False

    def put(self, piece: Piece) -> None:
        """Hand a piece over; call from the thread. Blocks while there is no room.

        Raises:
            RingClosed: as said.
        """
        asyncio.run_coroutine_threadsafe(self._put(piece), self._loop).result()

    async def close(self) -> None:
        """No further piece goes in; those inside can still be taken."""
        async with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    async def drain(self) -> AsyncGenerator[Piece, None]:
        """The pieces until the ring is closed and empty. Asking for the next one gives the last one's room back."""
        while (piece := await self._take()) is not None:
            yield piece
            async with self._changed:
                self._held -= 1
                self._held_bytes -= len(piece.content)
                self._changed.notify_all()

    async def _take(self) -> Piece | None:
        async with self._changed:
            await self._changed.wait_for(lambda: self._waiting or self._is_closed)
            return self._waiting.popleft() if self._waiting else None

    async def _put(self, piece: Piece) -> None:
        size_bytes = len(piece.content)
        async with self._changed:
            await self._changed.wait_for(lambda: self._is_closed or self._has_room(size_bytes))
            if self._is_closed:
                raise RingClosed
            self._waiting.append(piece)
            self._held += 1
            self._held_bytes += size_bytes
            self._changed.notify_all()

    def _has_room(self, size_bytes: int) -> bool:
        return self._held == 0 or (self._held < SLOTS and self._held_bytes + size_bytes <= MAX_BYTES)
