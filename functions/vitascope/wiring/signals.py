"""The life of a process: until a signal, or until its work ends by itself."""

import asyncio
import signal
from collections.abc import Awaitable


async def run_until_signal(work: Awaitable[None]) -> None:
    """Run until SIGINT or SIGTERM, or until the work ends or fails by itself."""
    stop = watch_signals()
    working, stopping = asyncio.ensure_future(work), asyncio.create_task(stop.wait(), name="wait for a signal")
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
    finally:
        for task in (working, stopping):
            task.cancel()
        await asyncio.gather(working, stopping, return_exceptions=True)


def watch_signals() -> asyncio.Event:
    """An event that SIGINT or SIGTERM sets."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    return stop
