"""Calls of the NATS client that are cancelled at any moment: the caller ends, and the connection stays."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from contract.real import RealPorts, real_ports
from vitascope.adapters.jetstream import Connection
from vitascope.contracts.flow import Stage
from vitascope.contracts.subjects import progress_subject

TURNS = 40
"""Turns of the event loop within which each call goes through all its waits, answer included."""
DEADLINE_S = 5.0


async def listen(real: RealPorts) -> None:
    async with real.bus.watch_control("g0"):
        await asyncio.Event().wait()


async def watch_all(real: RealPorts) -> None:
    async with real.ledger.watch() as changes:
        async for _ in changes:
            pass


async def watch_progress(real: RealPorts) -> None:
    async with real.bus.watch_progress(progress_subject("default", "vj_1")) as news:
        async for _ in news:
            pass


async def consume(real: RealPorts) -> None:
    async with real.bus.consume(Stage.ENCODE, "cancelled") as deliveries:
        async for _ in deliveries:
            pass


async def ask(real: RealPorts) -> None:
    await real.ledger.get("vj_1")


@pytest.mark.parametrize("call", [listen, watch_all, watch_progress, consume, ask], ids=lambda call: str(call.__name__))
async def test_cancelled_call_ends_and_leaves_the_connection(
    connection: Connection, call: Callable[[RealPorts], Awaitable[None]]
) -> None:
    """Whatever it is waiting for at that moment, the answer's arrival included."""
    real, epoch = real_ports(connection), connection.epoch
    for turns in range(TURNS):
        task = asyncio.ensure_future(call(real))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        done, _ = await asyncio.wait({task}, timeout=DEADLINE_S)
        assert {task} == done, f"cancelled after {turns} turns, it goes on"
        assert task.cancelled() or task.exception() is None
    await connection.flush()
    assert (epoch, True) == (connection.epoch, real.bus.is_connected())
    assert None is await real.ledger.get("vj_1")
