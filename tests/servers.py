"""Real servers for tests, on free loopback ports, with their files under a given folder."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from vitascope.local import nats_server, s3_server
from vitascope.local.folder import DataFolder, open_folder
from vitascope.local.nats_server import NatsServer
from vitascope.local.ports import settle_ports
from vitascope.local.s3_server import S3Server
from vitascope.local.supervisor import Supervisor

MIN_FREE_BYTES = 256 * 1024**2  # tests write little


@dataclass(frozen=True)
class RunningNats:
    """A NATS server with JetStream. `url` holds the credentials."""

    url: str
    plain_url: str
    user: str
    password: str


@dataclass(frozen=True)
class RunningS3:
    """An S3 server, plain HTTP. `endpoint` is a URL, `address` the same as host:port."""

    endpoint: str
    address: str
    access_key: str
    secret_key: str
    region: str


@asynccontextmanager
async def running_nats(path: Path) -> AsyncIterator[RunningNats]:
    """Runs a NATS server of this test's own; the same `path` again finds the same data, address and credentials."""
    with open_folder(path / "nats-run", min_free_bytes=MIN_FREE_BYTES) as folder:
        server = NatsServer(folder, settle_ports(folder.run / "ports.json", nats_server.PORT_NAMES, {}))
        async with Supervisor(folder) as supervisor:
            await supervisor.start(await server.plan_child())
            user, password = folder.credentials.nats_user, folder.credentials.nats_password
            url = server.url.replace("nats://", f"nats://{user}:{password}@")
            yield RunningNats(url, server.url, user, password)


@asynccontextmanager
async def running_s3(path: Path) -> AsyncIterator[RunningS3]:
    """Runs an S3 server of this test's own; the same `path` again finds the same data, address and credentials."""
    with open_folder(path / "s3-run", min_free_bytes=MIN_FREE_BYTES) as folder, without_left_sockets(folder):
        server = S3Server(folder, settle_ports(folder.run / "ports.json", s3_server.PORT_NAMES, {}))
        async with Supervisor(folder) as supervisor:
            await supervisor.start(await server.plan_child())
            keys = folder.credentials.s3_access_key, folder.credentials.s3_secret_key
            yield RunningS3(server.endpoint, server.endpoint.removeprefix("http://"), *keys, s3_server.REGION)


@contextmanager
def without_left_sockets(folder: DataFolder) -> Iterator[None]:
    """Removes the sockets that SeaweedFS puts into /tmp by the numbers of its ports and never takes away."""
    yield
    store = folder.run / "ports.json"
    ports = json.loads(store.read_text()).values() if store.exists() else []
    for port in ports:
        for socket in Path("/tmp").glob(f"seaweedfs-*-{port}.sock"):
            socket.unlink(missing_ok=True)
