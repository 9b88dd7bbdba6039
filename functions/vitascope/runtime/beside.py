"""Things that run beside others: a coroutine beside a block, blocking code beside the event loop."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from typing import TypeVar

Answer = TypeVar("Answer")
RECANCEL_S = 1.0
"""A cancellation can get lost in a library (`asyncio.wait_for` before Python 3.12): it is said again after so long."""


@asynccontextmanager
async def beside(work: Coroutine[object, object, None], name: str) -> AsyncIterator[None]:
    """Runs a coroutine beside the block; ends it with the block.

    A failure of the coroutine is raised when the block has ended well; a failure of the block comes first.
    """
    task = asyncio.create_task(work, name=name)
    try:
        yield
    finally:
        while not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=RECANCEL_S)
    if not task.cancelled():
        task.result()


async def run_to_end(
    executor: Executor | None,
    act: Callable[[], Answer],
    *,
    on_cancel: Callable[[], None] | None = None,
) -> Answer:
    """Runs blocking code in a thread (of the loop's own pool if `executor` is None).

    A cancelled caller still waits for the thread, so that nothing is taken away under it; `on_cancel` may hurry it.
    """
    future = asyncio.get_running_loop().run_in_executor(executor, act)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        if on_cancel is not None:
            on_cancel()
        await asyncio.wait({future})
        if not future.cancelled():
            future.exception()  # asked for, so that asyncio does not report it as lost
        raise
