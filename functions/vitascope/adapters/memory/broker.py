"""One broker in memory: what a NATS server is to the real adapters."""

from vitascope.adapters.limits import ACK_WAIT_S
from vitascope.adapters.memory.bus import MemoryBus
from vitascope.adapters.memory.deliveries import MemoryDeliveryBook, MemoryEventFeed
from vitascope.adapters.memory.ledger import MemoryLedger
from vitascope.adapters.memory.registry import MemoryRegistry
from vitascope.adapters.memory.state import BrokerState
from vitascope.adapters.memory.tenants import MemoryTenantTable
from vitascope.adapters.memory.timing import MachineTime, Timing


class MemoryBroker:
    """A ledger, a bus and a registry that know of each other's outages.

    Attributes:
        ledger, bus, registry, tenants, deliveries, events: the ports; any number of users may share them.
    """

    def __init__(self, *, ack_wait_s: float = ACK_WAIT_S, timing: Timing | None = None) -> None:
        """Start empty and connected.

        Args:
            ack_wait_s: how long a delivery without a beat is left alone.
            timing: `HeldTime` for tests that move the time themselves; the machine's if absent.
        """
        self._state = BrokerState(timing or MachineTime(), ack_wait_s)
        self.ledger = MemoryLedger(self._state)
        self.bus = MemoryBus(self._state)
        self.registry = MemoryRegistry(self._state)
        self.tenants = MemoryTenantTable(self._state)
        self.deliveries = MemoryDeliveryBook(self._state)
        self.events = MemoryEventFeed(self.bus)

    def set_connected(self, *, connected: bool) -> None:
        """Begin or end an outage: while it lasts every call raises `bus_unavailable`; nothing is lost."""
        self._state.connections += connected and not self._state.connected
        self._state.connected = connected
        self.bus.wake()

    def lose(self) -> None:
        """Lose all that is stored, as a server whose files are gone; who consumes and watches goes on doing so."""
        self.ledger.lose()
        self.bus.lose()
        self.registry.lose()
        self.tenants.lose()
        self.deliveries.lose()
