"""What runs beside a block ends with it, whatever happens."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from vitascope.runtime import beside as beside_module
from vitascope.runtime.beside import beside, run_to_end


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beside_module, "RECANCEL_S", 0.0)


async def test_swallowed_cancellation_is_said_again() -> None:
    """A library that loses a cancellation, as `asyncio.wait_for` does before Python 3.12, does not hang the block."""
    lost = 0

    async def stubborn() -> None:
        nonlocal lost
        while lost < 3:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                lost += 1

    async with asyncio.timeout(10), beside(stubborn(), name="stubborn"):
        await asyncio.sleep(0)
    assert 3 == lost


async def test_failure_beside_is_raised_after_the_block() -> None:
    """The block's own failure comes first."""

    async def fail() -> None:
        raise ValueError("beside")

    with pytest.raises(ValueError, match="beside"):
        async with beside(fail(), name="fail"):
            await asyncio.sleep(0)
    with pytest.raises(KeyError, match="block"):
        await fail_beside(fail())


async def fail_beside(work: Coroutine[object, object, None]) -> None:
    async with beside(work, name="fail"):
        await asyncio.sleep(0)
        raise KeyError("block")


async def test_cancelled_caller_waits_for_its_thread() -> None:
    """Nothing is taken away under a thread that still works; it is told to hurry."""
    hurried, done = asyncio.Event(), []
    loop = asyncio.get_running_loop()

    def work() -> None:
        asyncio.run_coroutine_threadsafe(hurried.wait(), loop).result()
        done.append("work")

    with ThreadPoolExecutor(1) as executor:
        caller = asyncio.create_task(run_to_end(executor, work, on_cancel=hurried.set))
        await asyncio.sleep(0)
        caller.cancel()
        with suppress(asyncio.CancelledError):
            await caller
    assert (["work"], True) == (done, caller.cancelled())
