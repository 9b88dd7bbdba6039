"""The life of a stage process: answer probes, load, work, drain on a signal, end.

Signals are ours, not the HTTP server's: kserve would close HTTP first and tell the stage last, so that it took new
work meanwhile. Here the stage stops taking, hands back or finishes what runs, and HTTP ends after it.
"""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import structlog

from vitascope.contracts.failures import FailureKind, VitascopeError
from vitascope.runtime.health import Health
from vitascope.runtime.listener import open_listener
from vitascope.runtime.ports import Bus, Clock, Ledger
from vitascope.runtime.predictor import HTTP_CLOSE_S, StageModel, StageServer
from vitascope.runtime.stage_loop import StageLoop

SIGNALS = (signal.SIGTERM, signal.SIGINT)
LEAVE_S = 5.0
"""Past the end of serving, what closes connections gets so long when a thread of the stage hangs; the interpreter
would wait for that thread for ever."""

log = structlog.get_logger(__name__)


class StageService:
    """One stage behind its KServe face; `serve` is the life of the process, once."""

    def __init__(
        self,
        loop: StageLoop,
        bus: Bus,
        ledger: Ledger,
        *,
        clock: Clock,
        name: str,
        load: Callable[[], Awaitable[None]],
        grace_s: float,
    ) -> None:
        """`load` makes the stage ready for work and must not block the event loop; `name` is the KServe model's."""
        self._loop, self._load, self._grace_s = loop, load, grace_s
        self._health = Health(bus, loop)
        self._model = StageModel(name, self._health, loop, bus=bus, ledger=ledger, clock=clock)
        self._server = StageServer(self._model, self._health, self._drain)
        self._stop = asyncio.Event()
        self._tasks: list[asyncio.Task[Any]] = []

    async def serve(self, host: str, port: int, on_bound: Callable[[int], None] | None = None) -> int:
        """Serves until a signal; gives the exit status of the process.

        0 after a signal, 1 if something broke, `os.EX_CONFIG` if it cannot load and would not another time.

        The first SIGTERM or SIGINT drains, a second one ends the process at once. Must run in the main thread.

        Args:
            host: the one address to listen on.
            port: 0 takes a free one.
            on_bound: is told the port once the address is taken.

        Raises:
            OSError: the address is taken.
        """
        with open_listener(host, port) as listener, self._own_signals():
            bound = listener.getsockname()[1]
            log.info("listening", stage=self._loop.stage, model=self._model.name, host=host, port=bound)
            if on_bound is not None:
                on_bound(bound)
            http = self._start(self._server.serve(listener), "http")
            try:
                return await self._live(http)
            finally:
                self._server.close()
                await asyncio.wait({http}, timeout=HTTP_CLOSE_S + 1)
                await self._end_tasks()

    async def _live(self, http: asyncio.Task[Any]) -> int:
        stop = self._start(self._stop.wait(), "stop")
        stall = self._start(self._loop.stalled.wait(), "stall")
        loading = self._start(_as_coroutine(self._load), "load")
        await asyncio.wait({stop, http, loading}, return_when=asyncio.FIRST_COMPLETED)
        if not loading.done():  # what loads in a thread cannot be stopped
            return self._leave(0 if stop.done() else self._report_end(http))
        failure = loading.exception()
        if failure is not None:
            log.critical("loading failed", stage=self._loop.stage, error=str(failure), exc_info=failure)
            print(f"{self._loop.stage}: loading failed: {failure}", file=sys.stderr)  # noqa: T201 (for who reads no logs)
            is_final = isinstance(failure, VitascopeError) and failure.kind is FailureKind.TERMINAL
            return os.EX_CONFIG if is_final else 1
        self._health.is_loaded = self._model.ready = True
        log.info("ready", stage=self._loop.stage, model=self._model.name)
        status = await self._work({stop, stall, http})
        await self._drain()
        return self._leave(status) if self._loop.has_abandoned else status

    async def _work(self, ends: set[asyncio.Task[Any]]) -> int:
        """Run the stage until something ends it; the exit status."""
        working = self._start(self._loop.run(), "stage loop")
        await asyncio.wait({working, *ends}, return_when=asyncio.FIRST_COMPLETED)
        if working.done() and working.exception() is None:  # drained by request: stay until the signal comes
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if self._stop.is_set():
            return 0
        return self._report_end(next(end for end in (working, *ends) if end.done()))

    def _report_end(self, ended: asyncio.Task[Any]) -> int:
        """Log what should have gone on until a signal; the exit status."""
        log.critical("ended by itself", stage=self._loop.stage, part=ended.get_name(), exc_info=ended.exception())
        return 1

    async def _drain(self) -> None:
        await self._loop.drain(self._grace_s)

    def _start(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        task = asyncio.create_task(work, name=name)
        self._tasks.append(task)
        return task

    async def _end_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @contextmanager
    def _own_signals(self) -> Iterator[None]:
        running = asyncio.get_running_loop()
        for number in SIGNALS:
            running.add_signal_handler(number, self._on_signal, number)
        try:
            yield
        finally:
            for number in SIGNALS:
                running.remove_signal_handler(number)

    def _on_signal(self, number: signal.Signals) -> None:
        if self._stop.is_set():
            log.warning("second signal, ending at once", stage=self._loop.stage, signal=number.name)
            os._exit(128 + number)
        log.info("signal", stage=self._loop.stage, signal=number.name)
        self._stop.set()

    def _leave(self, status: int) -> int:
        """Bound the end of the process when a thread of its is still at work."""
        ending = threading.Timer(LEAVE_S, os._exit, (status,))
        ending.daemon = True
        ending.start()
        return status


async def _as_coroutine(load: Callable[[], Awaitable[None]]) -> None:
    await load()
