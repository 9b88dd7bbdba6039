"""The rows of the registry, followed: which groups, decode and encode processes are alive at this moment."""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta

import structlog

from vitascope.contracts.failures import VitascopeError
from vitascope.contracts.flow import Stage
from vitascope.contracts.pools import LEASE_S, GroupRow, GroupState, presence_pool
from vitascope.contracts.subjects import group_key
from vitascope.runtime.ports import Clock, Registry

RETRY_S = 1.0
"""Between two tries to follow a registry that cannot be reached; ends with the process."""
WORKING = frozenset({GroupState.IDLE, GroupState.BUSY})

log = structlog.get_logger(__name__)


class GroupIndex:
    """Rows by the time they arrived here, so that the clocks of other machines do not matter."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rows: dict[str, tuple[GroupRow, datetime]] = {}

    async def run(self, registry: Registry) -> None:
        """Follow the registry until cancelled; goes on by itself after an outage."""
        while True:
            try:
                async with registry.watch_groups() as news:
                    async for row in news:
                        if row is not None:
                            self.apply(row)
            except VitascopeError as error:
                log.warning("registry cannot be followed", error=str(error))
            await asyncio.sleep(RETRY_S)

    def apply(self, news: GroupRow | str) -> None:
        """Take in a row, or the key of one that was taken away."""
        if isinstance(news, str):
            self._rows.pop(news, None)
        else:
            self._rows[group_key(news.pool, news.group)] = (news, self._clock.now())

    def list_alive(self) -> Sequence[GroupRow]:
        """Rows renewed within `LEASE_S`, in the order of their names; older ones are forgotten."""
        oldest = self._clock.now() - timedelta(seconds=LEASE_S)
        self._rows = {key: (row, came) for key, (row, came) in self._rows.items() if came > oldest}
        return [row for _, (row, _) in sorted(self._rows.items())]

    def list_working(self, stage: Stage, pool: str) -> Sequence[GroupRow]:
        """Live rows of a pool's stage that have started and do not drain."""
        wanted = pool if stage is Stage.DENOISE else presence_pool(stage, pool)
        return [row for row in self.list_alive() if row.pool == wanted and row.state in WORKING]
