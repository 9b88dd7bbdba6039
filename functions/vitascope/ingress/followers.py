"""The tasks that keep the read models up to date: started with the application, ended with it, missed if they die."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager

import structlog

log = structlog.get_logger(__name__)


class Followers:
    """Named tasks that never end by themselves; one that does is a bug, and liveness says so."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []

    def are_alive(self) -> bool:
        """Whether all of them still run."""
        return not any(task.done() for task in self._tasks)

    @asynccontextmanager
    async def following(self, works: Mapping[str, Coroutine[object, object, None]]) -> AsyncIterator[None]:
        """Run them while the block lasts."""
        self._tasks = [asyncio.create_task(work, name=f"ingress follows {name}") for name, work in works.items()]
        for task in self._tasks:
            task.add_done_callback(_report)
        try:
            yield
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks)


def _report(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        log.error("follower stopped", follower=task.get_name(), exc_info=task.exception())
