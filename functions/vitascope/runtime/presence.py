"""A row in the registry, renewed all the time, and at once when something about it changes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog

from vitascope.contracts.failures import VitascopeError
from vitascope.contracts.pools import HEARTBEAT_S, GroupRow
from vitascope.runtime.beside import beside
from vitascope.runtime.ports import Clock, Registry

log = structlog.get_logger(__name__)


class Presence:
    """Says that somebody is there and what he is doing.

    Work goes on while the registry is unreachable; the row follows when it is back.
    """

    def __init__(self, registry: Registry, clock: Clock, row: GroupRow) -> None:
        self._registry, self._clock, self._row = registry, clock, row
        self._changed = asyncio.Event()

    @property
    def row(self) -> GroupRow:
        """The row as it is said next; `seen` is the time of the last renewal."""
        return self._row

    @asynccontextmanager
    async def beating(self) -> AsyncIterator[None]:
        """Keeps the row alive during the block and takes it away at its end."""
        try:
            async with beside(self._beat(), name=f"heartbeat of {self._row.group}"):
                yield
        finally:
            try:
                await self._registry.remove_group(self._row)
            except VitascopeError as error:
                log.warning("row left to expire", group=self._row.group, error=str(error))

    def change(self, **changes: object) -> None:
        """Say something new, at once."""
        self._row = self._row.model_copy(update=changes)
        self._changed.set()

    def note(self, **changes: object) -> None:
        """Say something new with the next renewal."""
        self._row = self._row.model_copy(update=changes)

    async def _beat(self) -> None:
        while True:
            self._changed.clear()
            await self._renew()
            try:
                async with asyncio.timeout(HEARTBEAT_S):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def _renew(self) -> None:
        self._row = self._row.model_copy(update={"seen": self._clock.now()})
        try:
            await self._registry.put_group(self._row)
        except VitascopeError as error:
            log.warning("row not renewed", group=self._row.group, error=str(error))
