"""Each port twice: in memory, and on a real server. What a test sees of a real server is its own by name."""

from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest

from contract.nats_process import NatsProcess, nats_process
from contract.real import RETENTION, Ports, RealPorts, real_ports, s3_client
from servers import RunningNats, RunningS3
from vitascope.adapters.jetstream import Connection, ensure
from vitascope.adapters.memory import MemoryBroker, MemoryObjectStore
from vitascope.adapters.s3 import S3ObjectStore, ensure_bucket
from vitascope.runtime.ports import ObjectStore


@pytest.fixture(params=["memory", "real"])
def nats(request: pytest.FixtureRequest) -> RunningNats | None:
    """The session's server, or None for the broker in memory. Not async: it may start the server."""
    server: RunningNats | None = request.getfixturevalue("nats_server") if request.param == "real" else None
    return server


@pytest.fixture
async def ports(nats: RunningNats | None) -> AsyncIterator[Ports]:
    if nats is None:
        yield MemoryBroker()
        return
    async with Connection(nats.url) as connection:
        await ensure(connection)
        yield real_ports(connection)


@pytest.fixture
async def connection(nats_server: RunningNats) -> AsyncIterator[Connection]:
    async with Connection(nats_server.url) as made:
        await ensure(made)
        yield made


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[NatsProcess]:
    """A server of the test's own, to stop and to start."""
    async with nats_process(tmp_path) as process:
        yield process


@pytest.fixture
async def own_ports(server: NatsProcess) -> AsyncIterator[RealPorts]:
    async with Connection(server.url) as connection:
        await ensure(connection)
        yield real_ports(connection)


@pytest.fixture
def unique() -> str:
    """A pool, group or tenant that no other test uses."""
    return f"t-{uuid4().hex[:12]}"


@pytest.fixture(params=["memory", "real"])
def s3(request: pytest.FixtureRequest) -> RunningS3 | None:
    """The session's server, or None for the store in memory."""
    server: RunningS3 | None = request.getfixturevalue("s3_server") if request.param == "real" else None
    return server


@pytest.fixture
async def store(s3: RunningS3 | None) -> AsyncIterator[ObjectStore]:
    if s3 is None:
        yield MemoryObjectStore()
        return
    async with s3_client(s3) as client:
        await ensure_bucket(client, RETENTION)
        yield S3ObjectStore(client)


@pytest.fixture
async def real_store(s3_server: RunningS3) -> AsyncIterator[S3ObjectStore]:
    async with s3_client(s3_server) as client:
        await ensure_bucket(client, RETENTION)
        yield S3ObjectStore(client)
