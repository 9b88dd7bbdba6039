"""One child process, from its start to its end."""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from vitascope.local import launch
from vitascope.local.folder import DataFolder
from vitascope.local.logs import LogPipe
from vitascope.local.orphans import MARK_VARIABLE, compute_mark, kill_children_of

PROBE_INTERVAL_S = 0.1
LIVE_INTERVAL_S = 5.0
LIVE_MISSES = 6  # half a minute: a restart costs work, so a busy machine must not look like a hung child
PROBE_DEADLINE_S = 10.0  # of one probe; a server that hangs must not hang its probe
KILL_DEADLINE_S = 10.0
LOG_DEADLINE_S = 2.0

FINAL_END = "cannot work as it is set up"  # what a child says by os.EX_CONFIG: another start would end the same way

log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class ChildSpec:
    """What to run, how to see that it is ready, and how long it may take to end.

    Args:
        name: Names the child in logs, errors and its log file; unique within a run.
        argv: The program's absolute path and its arguments.
        env: Added to the environment of this process.
        cwd: Its working folder; None is this process's.
        is_ready: Asked every PROBE_INTERVAL_S; an OSError or TimeoutError from it means "not yet". None: ready at once.
        ready_deadline_s: How long it may take to become ready.
        is_live: Asked every LIVE_INTERVAL_S once it is ready; after LIVE_MISSES refusals in a row it is taken for hung.
            None: only its end is noticed.
        grace_s: How long it may take to end after SIGTERM, before SIGKILL.
    """

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: Path | None = None
    is_ready: Callable[[], Awaitable[bool]] | None = None
    ready_deadline_s: float = 60.0
    is_live: Callable[[], Awaitable[bool]] | None = None
    grace_s: float = 10.0


class Child:
    """A running child; `spawn` starts one, `stop` must follow."""

    def __init__(self, spec: ChildSpec, folder: DataFolder, process: asyncio.subprocess.Process, pipe: LogPipe) -> None:
        self._spec = spec
        self._folder = folder
        self._process = process
        self._pipe = pipe
        self.pid = process.pid

    @classmethod
    async def spawn(cls, spec: ChildSpec, folder: DataFolder) -> "Child":
        """Starts the child in a session of its own, its output going to its log in the data folder.

        Call it from the main thread: on Linux the child ends with the thread that started it.
        """
        pipe = LogPipe(compute_log_path(folder, spec.name))
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-I", "-S", launch.__file__, str(os.getpid()), *spec.argv),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=pipe.write_end,
                stderr=pipe.write_end,
                env={**os.environ, **spec.env, MARK_VARIABLE: compute_mark(folder, spec.name)},
                cwd=spec.cwd,
                start_new_session=True,  # Ctrl-C in the terminal reaches the supervisor only, which stops all in order
            )
        finally:
            pipe.started()
        return cls(spec, folder, process, pipe)

    async def wait_ready(self) -> bool:
        """Returns True when the child is ready, False when its deadline has passed. Does not notice an end."""
        try:
            async with asyncio.timeout(self._spec.ready_deadline_s):
                while not await _ask(self._spec.is_ready):  # noqa: ASYNC110 - another process sets no event here
                    await asyncio.sleep(PROBE_INTERVAL_S)
        except TimeoutError:
            return False
        return True

    async def wait_hung(self) -> str:
        """Returns, in words, when the child no longer answers that it lives."""
        misses = 0
        while misses < LIVE_MISSES:
            await asyncio.sleep(LIVE_INTERVAL_S)
            misses = 0 if await _ask(self._spec.is_live) else misses + 1
        return f"did not answer {misses} times in a row"

    async def wait(self) -> str:
        """Waits for the end and says it in words."""
        return describe_end(await self._process.wait())

    async def stop(self) -> None:
        """Ends the child and all that it started: SIGTERM, a grace period, SIGKILL. A second call changes nothing."""
        if self._process.returncode is None:
            self._process.terminate()
            try:
                async with asyncio.timeout(self._spec.grace_s):
                    await self._process.wait()
            except TimeoutError:
                log.warning("child did not end in its grace period", child=self._spec.name, grace_s=self._spec.grace_s)
                await self._kill()
        await kill_children_of(self._folder, self._spec.name)
        await asyncio.to_thread(self._pipe.join, LOG_DEADLINE_S)

    async def _kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
        try:
            async with asyncio.timeout(KILL_DEADLINE_S):
                await self._process.wait()
        except TimeoutError:  # stuck in the kernel (a dead disk): nothing more can be done from here
            log.exception("child survives SIGKILL", child=self._spec.name, pid=self.pid)


def compute_log_path(folder: DataFolder, child_name: str) -> Path:
    """Returns where a child's output goes."""
    return folder.logs / f"{child_name}.log"


def describe_end(status: int) -> str:
    """Returns the end of a process in words; `status` as in `subprocess`: below zero is a signal's number."""
    if status == os.EX_CONFIG:
        return FINAL_END
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"was ended by {signal.Signals(-status).name}"
    except ValueError:  # a real-time signal
        return f"was ended by signal {-status}"


async def _ask(is_ready: Callable[[], Awaitable[bool]] | None) -> bool:
    if is_ready is None:
        return True
    try:
        async with asyncio.timeout(PROBE_DEADLINE_S):
            return await is_ready()
    except (OSError, TimeoutError):  # refused, reset or too slow: not yet
        return False
