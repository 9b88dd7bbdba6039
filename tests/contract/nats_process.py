"""A NATS server that a test may kill, stop and start again: same port, same files."""

import asyncio
import json
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from contract.waiting import until
from vitascope.local.nats_server import MINIMUM_VERSION, PACKAGE
from vitascope.local.programs import find_program

READY_S = 20.0
END_S = 10.0


class NatsProcess:
    """One server program; `url` holds user and password."""

    def __init__(self, program: Path, folder: Path) -> None:
        self._program, self._folder = program, folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self._server: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        return f"nats://tester:secret@127.0.0.1:{self.port}"

    async def start(self, *, password: str = "secret") -> None:
        configuration = {
            "host": "127.0.0.1",
            "port": self.port,
            "authorization": {"user": "tester", "password": password},
            "jetstream": {
                "store_dir": str(self._folder / "store"),
                "max_memory_store": 128 * 1024**2,
                "max_file_store": 16 * 1024**3,
                "sync_interval": "always",
            },
        }
        path = self._folder / "nats.conf"
        path.write_text(json.dumps(configuration))
        log = (self._folder / "nats.log").open("ab")
        with log:
            self._server = await asyncio.create_subprocess_exec(
                str(self._program), "--config", str(path), stdout=log, stderr=log
            )
        await until(self._answers, READY_S)

    async def kill(self) -> None:
        """SIGKILL: no goodbye, no flush."""
        await self._end(signal.SIGKILL)

    async def stop(self) -> None:
        await self._end(signal.SIGTERM)

    async def _end(self, number: signal.Signals) -> None:
        if self._server is not None and self._server.returncode is None:
            self._server.send_signal(number)
            await asyncio.wait_for(self._server.wait(), END_S)
        self._server = None

    async def _answers(self) -> bool:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            return False
        try:
            return (await reader.readline()).startswith(b"INFO")
        finally:
            writer.close()
            await writer.wait_closed()


@asynccontextmanager
async def nats_process(folder: Path) -> AsyncIterator[NatsProcess]:
    program = await find_program("nats-server", package=PACKAGE, minimum=MINIMUM_VERSION, version_argument="--version")
    server = NatsProcess(program, folder)
    await server.start()
    try:
        yield server
    finally:
        await server.kill()
