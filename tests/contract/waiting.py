"""Waiting for the state of the world, where nothing announces it."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

LOOK_AGAIN_S = 0.02


async def until(holds: Callable[[], Awaitable[bool]], within_s: float = 10.0) -> None:
    """Return once it holds; TimeoutError if it does not in time."""
    async with asyncio.timeout(within_s):
        while not await holds():  # noqa: ASYNC110 (servers and disks set no event)
            await asyncio.sleep(LOOK_AGAIN_S)


async def until_true(holds: Callable[[], bool], within_s: float = 10.0) -> None:
    """The same for a question that need not wait."""

    async def ask() -> bool:
        return holds()

    await until(ask, within_s)


def names_in(folder: Path) -> list[str]:
    """What is in a folder, in the order of the names."""
    return sorted(path.name for path in folder.iterdir())
