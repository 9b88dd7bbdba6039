"""Brings up the two servers of a one-machine run on ports that stay the same from run to run where they can."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from vitascope.local import nats_server, s3_server
from vitascope.local.folder import Credentials, DataFolder
from vitascope.local.nats_server import NatsServer
from vitascope.local.ports import settle_ports
from vitascope.local.s3_server import S3Server
from vitascope.local.supervisor import Supervisor


@dataclass(frozen=True)
class Servers:
    """Where the running servers are, and what lets a client in."""

    nats_url: str
    s3_endpoint: str
    credentials: Credentials


async def start_servers(
    folder: DataFolder, supervisor: Supervisor, *, wanted_ports: Mapping[str, int] | None = None
) -> Servers:
    """Starts the NATS and the S3 server as one group and returns when both are ready.

    Args:
        folder: Where their files lie.
        supervisor: Keeps them running.
        wanted_ports: Ports that the user insists on, named as in `nats_server.PORT_NAMES` and `s3_server.PORT_NAMES`.

    Raises:
        PortInUseError: A wanted port is taken.
        ProgramError: A server program is missing or too old.
        ChildFailedError: A server does not come up.
    """
    names = (*nats_server.PORT_NAMES, *s3_server.PORT_NAMES)
    ports = await asyncio.to_thread(settle_ports, folder.run / "ports.json", names, wanted_ports or {})
    nats = NatsServer(folder, ports)
    s3 = S3Server(folder, ports)
    await supervisor.start(await nats.plan_child(), await s3.plan_child())
    return Servers(nats.url, s3.endpoint, folder.credentials)
