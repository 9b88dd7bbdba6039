"""One active dispatcher: whoever holds the lease."""

import asyncio
from contextlib import suppress

import structlog

from vitascope.contracts.failures import VitascopeError
from vitascope.runtime.ports import Registry

LEASE_NAME = "scheduler"
RENEWALS = 3
"""Renewals per lease time: two may be lost before another takes over."""

log = structlog.get_logger(__name__)


class Leadership:
    """Holds the scheduler's lease, or waits for it."""

    def __init__(self, registry: Registry, holder: str, ttl_s: float) -> None:
        self._registry, self._holder, self._ttl_s = registry, holder, ttl_s

    async def wait(self) -> None:
        """Return once the lease is ours."""
        while not await self._try():  # noqa: ASYNC110 (another process holds it: nothing here can signal)
            await asyncio.sleep(self._ttl_s / RENEWALS)
        log.info("lease taken", lease=LEASE_NAME, holder=self._holder)

    async def keep(self) -> None:
        """Renew the lease; return when it is lost, or when it could not be renewed for its whole life."""
        missed = 0
        while missed < RENEWALS:
            await asyncio.sleep(self._ttl_s / RENEWALS)
            missed = 0 if await self._try() else missed + 1
        log.warning("lease lost", lease=LEASE_NAME, holder=self._holder)

    async def release(self) -> None:
        """Let another take over at once."""
        with suppress(VitascopeError):
            await self._registry.release_lease(LEASE_NAME, self._holder)

    async def _try(self) -> bool:
        try:
            return await self._registry.acquire_lease(LEASE_NAME, self._holder, self._ttl_s)
        except VitascopeError as error:
            log.warning("lease not renewed", lease=LEASE_NAME, error=str(error))
            return False
