"""Starts groups of child processes in order, keeps them running, and stops them in reverse order."""

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import NoReturn, Self

import structlog

from vitascope.local.child import ChildSpec
from vitascope.local.folder import DataFolder
from vitascope.local.keeper import ChildReport, ChildState, Keeper, Restarts
from vitascope.local.orphans import kill_children_of

log = structlog.get_logger(__name__)


class Supervisor:
    """Owner of all child processes of a data folder.

    As an async context manager it first ends what an earlier run has left and at its end stops everything. Reports of
    children arrive in `on_report`, called from the event loop; it must not block or raise.
    """

    def __init__(
        self,
        folder: DataFolder,
        *,
        restarts: Restarts | None = None,
        on_report: Callable[[ChildReport], None] = lambda _: None,
    ) -> None:
        self._folder = folder
        self._restarts = restarts or Restarts()
        self._on_report = on_report
        self._groups: list[dict[asyncio.Task[NoReturn], Keeper]] = []
        self._failed = asyncio.Event()
        self._failure: BaseException | None = None
        self._stopping: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        if left := await kill_children_of(self._folder):
            log.warning("ended processes of an earlier run", pids=left)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self, *specs: ChildSpec) -> None:
        """Starts one group, all at once, and returns when all of it is ready.

        Raises:
            ChildFailedError: A child of any group failed too often. What runs goes on until `stop`.
        """
        assert self._stopping is None, "nothing can be started once the stop has begun"
        names = [spec.name for spec in specs] + [report.child for report in self.reports()]
        assert len(set(names)) == len(names), f"children need different names: {names}"
        group: dict[asyncio.Task[NoReturn], Keeper] = {}
        self._groups.append(group)
        for spec in specs:
            keeper = Keeper(spec, self._folder, self._restarts, self._on_report)
            keeping = asyncio.create_task(keeper.run(), name=f"keep {spec.name}")
            keeping.add_done_callback(self._note_end)
            group[keeping] = keeper
        await self._wait_ready(list(group.values()))

    async def wait_failed(self) -> NoReturn:
        """Waits for as long as all children can be kept up.

        Raises:
            ChildFailedError: One failed too often.
        """
        await self._failed.wait()
        assert self._failure is not None
        raise self._failure

    def reports(self) -> list[ChildReport]:
        """Returns the newest report of every child, in the order of their start."""
        keepers = [keeper for group in self._groups for keeper in group.values()]
        return [keeper.last_report or ChildReport(keeper.spec.name, ChildState.STARTING) for keeper in keepers]

    async def stop(self) -> None:
        """Stops all groups in reverse order, each as a whole; returns when no process is left.

        A second call waits for the same stop. A caller that is cancelled here stays until all has stopped, at most the
        sum of the groups' grace periods and a few seconds, and is cancelled then.
        """
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._stop_all(), name="stop all children")
        cancelled: asyncio.CancelledError | None = None
        while not self._stopping.done():
            try:
                await asyncio.wait({self._stopping})
            except asyncio.CancelledError as error:
                cancelled = error
        self._stopping.result()
        if cancelled is not None:
            raise cancelled

    async def _stop_all(self) -> None:
        for group in reversed(self._groups):
            for keeping in group:
                keeping.cancel()
            if group:
                await asyncio.wait(group)
        if left := await kill_children_of(self._folder):
            log.warning("ended processes that had outlived their parents", pids=left)

    async def _wait_ready(self, keepers: list[Keeper]) -> None:
        async def wait_for_all() -> None:
            for keeper in keepers:
                await keeper.is_ready.wait()

        ready = asyncio.create_task(wait_for_all(), name="wait for a group")
        failed = asyncio.create_task(self._failed.wait(), name="wait for a failure")
        try:
            await asyncio.wait({ready, failed}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ready.cancel()
            failed.cancel()
        if self._failure is not None:
            raise self._failure

    def _note_end(self, keeping: asyncio.Task[NoReturn]) -> None:
        if keeping.cancelled():
            return
        error = keeping.exception()
        assert error is not None, "a keeper ends by an error or by being cancelled"
        self._failure = self._failure or error
        self._failed.set()
