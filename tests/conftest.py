"""What all tests share: one NATS server and one S3 server for those that ask, and single-threaded torch."""

import os
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from servers import RunningNats, RunningS3, running_nats, running_s3

# Read when torch is first imported, here and in the processes that tests start; nothing is imported for it.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def nats_server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningNats]:
    """One NATS server for the whole session: use subjects, streams and buckets of your own."""
    async with running_nats(tmp_path_factory.mktemp("nats")) as server:
        yield server


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def s3_server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningS3]:
    """One S3 server for the whole session: use a bucket of your own."""
    async with running_s3(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(scope="session")
def nats_url(nats_server: RunningNats) -> str:
    """The session's NATS server, credentials included."""
    return nats_server.url


@pytest.fixture(scope="session")
def s3_endpoint(s3_server: RunningS3) -> str:
    """The session's S3 server as a URL; its credentials are in the fixture `s3_server`."""
    return s3_server.endpoint
