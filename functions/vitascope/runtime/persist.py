"""Keep what was paid for: repeat a write to the bus, ledger or store until its server is back."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import TypeVar

import structlog

from vitascope.contracts.failures import VitascopeError
from vitascope.runtime.outcome import OUTAGES
from vitascope.runtime.stage import Pulse

DELAYS_S = (0.2, 0.5, 1.0, 2.0, 5.0, *(10.0,) * 60)
"""Ten minutes in all; each try may take as long as the adapter's own limit besides."""

Answer = TypeVar("Answer")
log = structlog.get_logger(__name__)


async def persist(write: Callable[[], Awaitable[Answer]], pulse: Pulse | None, *, job: str) -> Answer:
    """Do a write that may be repeated, through an outage of its server.

    The result of minutes of GPU time is in memory, so waiting is cheaper than making it again. The work counts as
    waiting meanwhile; no `pulse` if it goes on beside the write.

    Raises:
        VitascopeError: the outage outlasted `DELAYS_S`, or it is no outage.
    """
    with nullcontext() if pulse is None else pulse.waiting():
        for delay_s in DELAYS_S:
            try:
                return await write()
            except VitascopeError as error:
                if error.code not in OUTAGES:
                    raise
                log.warning("write will be repeated", job=job, delay_s=delay_s, error=str(error))
            await asyncio.sleep(delay_s)
        return await write()
