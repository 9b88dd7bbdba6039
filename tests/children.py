"""Looking at the children of a supervisor: what they report, and whether they run."""

import asyncio

import psutil

from vitascope.local.keeper import ChildReport, ChildState

WAIT_DEADLINE_S = 40.0  # far above anything seen: a test that waits so long has failed


class Reports:
    """Called for each report; keeps all, and lets a test wait for one."""

    def __init__(self) -> None:
        self.seen: list[ChildReport] = []
        self._queue: asyncio.Queue[ChildReport] = asyncio.Queue()

    def __call__(self, report: ChildReport) -> None:
        self.seen.append(report)
        self._queue.put_nowait(report)

    async def wait_for(self, child: str, state: ChildState) -> ChildReport:
        """Returns the next report of this kind, passing over others."""
        async with asyncio.timeout(WAIT_DEADLINE_S):
            while True:
                report = await self._queue.get()
                if (report.child, report.state) == (child, state):
                    return report


def is_running(pid: int) -> bool:
    """Whether the process runs; one that has ended and waits for its parent to notice does not."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
