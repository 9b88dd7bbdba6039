"""The real ports, as wiring would build them, for a given server."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from servers import RunningS3
from vitascope.adapters.jetstream import (
    Connection,
    JetStreamBus,
    JetStreamDeliveryBook,
    JetStreamLedger,
    JetStreamRegistry,
    JetStreamTenantTable,
)
from vitascope.adapters.s3 import S3Client
from vitascope.contracts.expiry import Retention
from vitascope.runtime.deliveries import DeliveryBook
from vitascope.runtime.ports import Bus, Ledger, Registry
from vitascope.runtime.tenants import TenantTable

BUCKET = "contract-tests"
RETENTION = Retention(files=timedelta(days=7), record=timedelta(days=30))


class Ports(Protocol):
    """A ledger, a bus, a registry, the tenants and the deliveries."""

    @property
    def ledger(self) -> Ledger: ...

    @property
    def bus(self) -> Bus: ...

    @property
    def registry(self) -> Registry: ...

    @property
    def tenants(self) -> TenantTable: ...

    @property
    def deliveries(self) -> DeliveryBook: ...


@dataclass(frozen=True)
class RealPorts:
    """The ports of one process on a NATS server."""

    connection: Connection
    ledger: JetStreamLedger
    bus: JetStreamBus
    registry: JetStreamRegistry
    tenants: JetStreamTenantTable
    deliveries: JetStreamDeliveryBook


def real_ports(connection: Connection) -> RealPorts:
    return RealPorts(
        connection,
        JetStreamLedger(connection),
        JetStreamBus(connection),
        JetStreamRegistry(connection),
        JetStreamTenantTable(connection),
        JetStreamDeliveryBook(connection),
    )


def s3_client(
    server: RunningS3,
    *,
    endpoint: str | None = None,
    public_endpoint: str | None = None,
    bucket: str = BUCKET,
) -> S3Client:
    return S3Client(
        endpoint or server.endpoint,
        access_key=server.access_key,
        secret_key=server.secret_key,
        bucket=bucket,
        region=server.region,
        public_endpoint=public_endpoint,
        connect_timeout_s=2,
    )
