"""What the ports of one broker in memory share."""

from dataclasses import dataclass

from vitascope.adapters.memory.timing import Timing
from vitascope.contracts.failures import FailureCode, VitascopeError


@dataclass
class BrokerState:
    """The broker's time, its `ack_wait`, whether it can be reached, and in how many spells it could so far."""

    timing: Timing
    ack_wait_s: float
    connected: bool = True
    connections: int = 1

    def check(self) -> None:
        """Raise `bus_unavailable` during an outage."""
        if not self.connected:
            raise VitascopeError(FailureCode.BUS_UNAVAILABLE, "The broker in memory is told to be away.")
