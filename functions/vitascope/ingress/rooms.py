"""Room for what requests bring along or keep open: so much of it in one replica, shared by all its requests."""

from types import TracebackType
from typing import Self

from vitascope.contracts.failures import FailureCode, VitascopeError

INLINE_SHARE = 4
"""As many of the largest bodies with data URLs fit into memory at a time."""


class Room:
    """So much, and no more; `taken` is how much of it is in use."""

    def __init__(self, limit: int, full: str) -> None:
        """`full` is the sentence for a request that finds no room."""
        self._limit, self._full = limit, full
        self.taken = 0

    def lease(self) -> "Lease":
        """A part of it, nothing yet; a context manager that gives back what was taken."""
        return Lease(self)

    def take(self, count: int) -> None:
        """Take some.

        Raises:
            VitascopeError: `service_unavailable`, there is not so much left.
        """
        if self.taken + count > self._limit:
            raise VitascopeError(FailureCode.SERVICE_UNAVAILABLE, self._full)
        self.taken += count


class Lease:
    """What one request has taken."""

    def __init__(self, room: Room) -> None:
        self._room, self._taken = room, 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._room.taken -= self._taken
        self._taken = 0

    def take(self, count: int) -> None:
        """Take more; errors as of `Room.take`."""
        self._room.take(count)
        self._taken += count
