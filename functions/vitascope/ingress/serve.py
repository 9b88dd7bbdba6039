"""Serve the door on a bound socket until it is told to stop."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI

from vitascope.ingress.door import get_door
from vitascope.ingress.wire import WireProtocol

CLOSE_S = 3
"""Requests in flight may last so long once the door closes; event streams end at once."""
BACKLOG = 2048
"""Connections that wait to be accepted; the kernel has its own, lower bound."""


async def serve_door(app: FastAPI, listener: socket.socket, stop: asyncio.Event) -> None:
    """Answer on the socket until `stop` is set or the server ends by itself. Signals are the caller's."""
    config = uvicorn.Config(
        app,
        access_log=False,  # the metrics count requests; a line for each would bury what matters
        backlog=BACKLOG,
        http=WireProtocol,
        lifespan="on",
        log_config=None,  # the process's own logs
        server_header=False,
        timeout_graceful_shutdown=CLOSE_S,
    )
    server = _SignalFreeServer(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]), name="ingress http")
    stopping = asyncio.create_task(stop.wait(), name="ingress stop")
    try:
        await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        get_door(app).streams.close()
        server.should_exit = True
        await serving


class _SignalFreeServer(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the process."""
        yield
