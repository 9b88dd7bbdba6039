"""The time that a drain leaves for saving what is in memory."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

SAVING_SHARE = 0.8
"""Of the grace time. The rest is for putting the job back into the queue with what is safe: a run that is cut off
instead counts as a lost group against its job."""


class Grace:
    """Saving may take as long as it likes until the process drains, and from then on a share of the grace time."""

    def __init__(self, grace_s: float) -> None:
        self._grace_s = grace_s
        self._deadline_s: float | None = None
        self._limits: set[asyncio.Timeout] = set()

    def begin(self) -> None:
        """The process drains; a second call changes nothing."""
        if self._deadline_s is not None:
            return
        self._deadline_s = asyncio.get_running_loop().time() + self._grace_s * SAVING_SHARE
        for limit in self._limits:
            limit.reschedule(self._deadline_s)

    @asynccontextmanager
    async def limit(self) -> AsyncIterator[None]:
        """Bounds the block.

        Raises:
            TimeoutError: the time for saving is over.
        """
        async with asyncio.timeout_at(self._deadline_s) as limit:
            self._limits.add(limit)
            try:
                yield
            finally:
                self._limits.discard(limit)
