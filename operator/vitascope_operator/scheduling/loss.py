"""The loss of the ledger: the server is there, and what it held is not."""

import asyncio
from contextlib import suppress
from datetime import datetime

import structlog

from vitascope.contracts.failures import VitascopeError
from vitascope.runtime.ports import Bus, Ledger

LOOK_S = 0.25
"""How often it is looked whether the connection was made anew; that asks nobody."""
ASK_EVERY_S = 30.0
"""How often the ledger is asked though the connection stayed: somebody may have deleted the bucket."""
RETRY_S = 1.0
"""Between two tries to ask a ledger that does not answer, because it is not made anew yet for example."""

log = structlog.get_logger(__name__)


async def wait_lost(ledger: Ledger, bus: Bus, birth: datetime) -> None:
    """Return once the ledger is no longer the one that was made at `birth`.

    It is asked after each new connection: a server loses its files only while it is away, and the number of connections
    tells even of an outage that nobody noticed.
    """
    while True:
        heard = bus.count_connections()
        if await _ask(ledger) != birth:
            log.error("the ledger was lost", birth=birth.isoformat())
            return
        await _wait_connected_anew(bus, heard)


async def _wait_connected_anew(bus: Bus, heard: int) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(ASK_EVERY_S):
            while bus.count_connections() == heard:  # noqa: ASYNC110 (the client reconnects by itself and tells nobody)
                await asyncio.sleep(LOOK_S)


async def _ask(ledger: Ledger) -> datetime:
    while True:
        try:
            return await ledger.get_birth()
        except VitascopeError as error:
            log.info("ledger does not answer", error=str(error))
        await asyncio.sleep(RETRY_S)
