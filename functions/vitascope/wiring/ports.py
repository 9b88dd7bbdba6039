"""The adapters of one process, connected."""

import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from vitascope.adapters.jetstream import (
    Connection,
    JetStreamBus,
    JetStreamDeliveryBook,
    JetStreamLedger,
    JetStreamRegistry,
    JetStreamTenantTable,
)
from vitascope.adapters.s3 import S3Client, S3ObjectStore
from vitascope.contracts.objects import PROBE_KEY
from vitascope.runtime.ports import SystemClock
from vitascope.runtime.settings import S3Settings, Settings
from vitascope.runtime.tenants import KeptTenants


@dataclass(frozen=True)
class Ports:
    """The adapters of one process."""

    connection: Connection
    s3: S3Client
    bus: JetStreamBus
    ledger: JetStreamLedger
    registry: JetStreamRegistry
    store: S3ObjectStore
    clock: SystemClock
    tenants: KeptTenants
    deliveries: JetStreamDeliveryBook


@asynccontextmanager
async def open_ports(settings: Settings, role: str) -> AsyncIterator[Ports]:
    """Connect to the bus and the store; closed in reverse at the end.

    Raises:
        VitascopeError: one of them cannot be reached.
    """
    nats, password = settings.nats, settings.nats.password
    connection = Connection(
        nats.url,
        name=f"vitascope-{role}",
        user=nats.user,
        password=password.get_secret_value() if password else None,
        connect_timeout_s=nats.connect_timeout_s,
    )
    async with connection, make_s3_client(settings.s3, settings.s3.bucket) as s3:
        bus, ledger, registry = JetStreamBus(connection), JetStreamLedger(connection), JetStreamRegistry(connection)
        store, clock = S3ObjectStore(s3), SystemClock()
        tenants = KeptTenants(JetStreamTenantTable(connection), store, clock)
        yield Ports(connection, s3, bus, ledger, registry, store, clock, tenants, JetStreamDeliveryBook(connection))


@asynccontextmanager
async def open_ready_ports(settings: Settings, role: str) -> AsyncIterator[Ports]:
    """As `open_ports`, once the store has answered: a process that could not work says so at its start."""
    async with open_ports(settings, role) as ports:
        await ports.store.size(PROBE_KEY)
        yield ports


def make_s3_client(settings: S3Settings, bucket: str) -> S3Client:
    """A client of one bucket; nothing is connected yet."""
    return S3Client(
        settings.endpoint,
        access_key=settings.access_key,
        secret_key=settings.secret_key.get_secret_value(),
        bucket=bucket,
        region=settings.region,
        public_endpoint=settings.public_endpoint,
        connect_timeout_s=settings.connect_timeout_s,
    )


def name_holder() -> str:
    """Host and process, as rows and leases name who holds them."""
    return f"{socket.gethostname()}:{os.getpid()}"
