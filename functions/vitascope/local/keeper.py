"""Keeps one child running: starts it, notices its end, starts it again, and gives up when that does not help."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import NoReturn

import structlog

from vitascope.local.child import FINAL_END, Child, ChildSpec, compute_log_path
from vitascope.local.errors import ChildFailedError
from vitascope.local.folder import DataFolder
from vitascope.local.logs import read_tail

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Restarts:
    """When a child is started again.

    An end counts as a repeated failure unless the child was ready for `stable_s` before it. After the n-th repeated
    failure the wait is `first_delay_s` times 2 to the n - 1, at most `max_delay_s`. Failure `max_failures` is the last,
    but not for a child that came up and hung: what it waits for, room on a disk for example, may come.
    """

    max_failures: int = 5
    first_delay_s: float = 0.5
    max_delay_s: float = 10.0
    stable_s: float = 60.0

    def compute_failures(self, before: int, *, ready_for_s: float, has_hung: bool = False) -> int:
        """Returns the number of repeated failures after one more end."""
        if ready_for_s >= self.stable_s:
            return 1
        return min(before + 1, self.max_failures - 1) if has_hung else before + 1

    def plan_delay_s(self, failures: int) -> float | None:
        """Returns the wait before the next start, None to give up."""
        assert failures >= 1
        if failures >= self.max_failures:
            return None
        return float(min(self.first_delay_s * 2 ** (failures - 1), self.max_delay_s))


class ChildState(StrEnum):
    """What a child's report says."""

    STARTING = "starting"
    STARTED = "started"
    READY = "ready"
    ENDED = "ended"  # it will be started again
    FAILED = "failed"  # it will not
    STOPPED = "stopped"  # it was asked to


@dataclass(frozen=True)
class ChildReport:
    """One change in the life of a child; `reason` says why it ended."""

    child: str
    state: ChildState
    pid: int | None = None
    reason: str | None = None


@dataclass(frozen=True)
class _End:
    pid: int
    reason: str
    ready_for_s: float
    has_hung: bool = False


class Keeper:
    """Owns one child and its restarts. `run` lasts until it gives up or is cancelled; cancelling it stops the child."""

    def __init__(
        self, spec: ChildSpec, folder: DataFolder, restarts: Restarts, on_report: Callable[[ChildReport], None]
    ) -> None:
        self.spec = spec
        self.is_ready = asyncio.Event()  # set at the first readiness and never cleared
        self.last_report: ChildReport | None = None
        self._folder = folder
        self._restarts = restarts
        self._on_report = on_report

    async def run(self) -> NoReturn:
        """Keeps the child running.

        Raises:
            ChildFailedError: It failed too often in a row.
        """
        try:
            await self._run_until_failed()
        except asyncio.CancelledError:
            self._report(ChildState.STOPPED)
            raise

    async def _run_until_failed(self) -> NoReturn:
        failures = 0
        while True:
            end = await self._run_once()
            failures = self._restarts.compute_failures(failures, ready_for_s=end.ready_for_s, has_hung=end.has_hung)
            delay_s = None if end.reason == FINAL_END else self._restarts.plan_delay_s(failures)
            if delay_s is None:
                self._report(ChildState.FAILED, end.pid, end.reason)
                raise await self._describe_failure(end, failures)
            self._report(ChildState.ENDED, end.pid, end.reason)
            await asyncio.sleep(delay_s)

    async def _run_once(self) -> _End:
        loop = asyncio.get_running_loop()
        child = await Child.spawn(self.spec, self._folder)
        ended = asyncio.create_task(child.wait(), name=f"wait for {self.spec.name}")
        ready = asyncio.create_task(child.wait_ready(), name=f"probe {self.spec.name}")
        try:
            self._report(ChildState.STARTED, child.pid)
            await asyncio.wait({ended, ready}, return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                return _End(child.pid, await ended, 0.0)
            if not await ready:
                return _End(child.pid, f"was not ready within {self.spec.ready_deadline_s:g} s", 0.0)
            ready_since_s = loop.time()
            self.is_ready.set()
            self._report(ChildState.READY, child.pid)
            reason = await self._wait_gone(child, ended)
            return _End(child.pid, reason, loop.time() - ready_since_s, has_hung=not ended.done())
        finally:
            ended.cancel()
            ready.cancel()
            await child.stop()

    async def _wait_gone(self, child: Child, ended: asyncio.Task[str]) -> str:
        """Waits for its end, or until it hangs; says which."""
        hung = asyncio.create_task(child.wait_hung(), name=f"watch {self.spec.name}")
        try:
            await asyncio.wait({ended, hung}, return_when=asyncio.FIRST_COMPLETED)
            return await (ended if ended.done() else hung)
        finally:
            hung.cancel()

    async def _describe_failure(self, end: _End, failures: int) -> ChildFailedError:
        path = compute_log_path(self._folder, self.spec.name)
        tail = await asyncio.to_thread(read_tail, path)
        return ChildFailedError(
            f"{self.spec.name} does not stay up",
            why=f"it {end.reason}, after {failures} tries; the last lines of its log are:\n{tail}\n",
            remedy=f"The whole log is {path}",
        )

    def _report(self, state: ChildState, pid: int | None = None, reason: str | None = None) -> None:
        self.last_report = ChildReport(self.spec.name, state, pid, reason)
        level = log.warning if state in {ChildState.ENDED, ChildState.FAILED} else log.info
        level("child changed", child=self.spec.name, state=state.value, pid=pid, reason=reason)
        self._on_report(self.last_report)
