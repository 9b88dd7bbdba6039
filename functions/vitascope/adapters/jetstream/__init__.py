"""The ledger, the bus and the registry on NATS JetStream (nats-server 2.14.1 or newer).

JetStream's own API is spoken over one core NATS connection, so that each call is one round trip, may be repeated
after a lost connection, and leaves nothing behind when it is cancelled.
"""

from vitascope.adapters.jetstream.bus import JetStreamBus
from vitascope.adapters.jetstream.connection import Connection
from vitascope.adapters.jetstream.deliveries import JetStreamDeliveryBook, JetStreamEventFeed
from vitascope.adapters.jetstream.ledger import JetStreamLedger
from vitascope.adapters.jetstream.registry import JetStreamRegistry
from vitascope.adapters.jetstream.tenants import JetStreamTenantTable
from vitascope.adapters.jetstream.topology import ensure

__all__ = [
    "Connection",
    "JetStreamBus",
    "JetStreamDeliveryBook",
    "JetStreamEventFeed",
    "JetStreamLedger",
    "JetStreamRegistry",
    "JetStreamTenantTable",
    "ensure",
]
