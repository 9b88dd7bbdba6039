"""One delivered work event, and the ways to end it."""

import asyncio
import json
from collections.abc import Callable

from nats.aio.msg import Msg

from vitascope.adapters.jetstream.api import NANOSECONDS
from vitascope.adapters.jetstream.connection import Connection
from vitascope.adapters.limits import ACK_WAIT_S, RETRY_MAX_S
from vitascope.contracts.events import CloudEvent

ACK, NAK, TERM, PROGRESS = b"+ACK", b"-NAK", b"+TERM", b"+WPI"
OVERDUE_S = 0.8 * ACK_WAIT_S
"""An event that waited so long to be looked at is about to go to somebody else: it is left to them."""


class JetStreamDelivery:
    """See `runtime.ports.Delivery`. The server confirms each way to end it; if a call raises, the event may come again.

    Attributes:
        reply: the subject that acknowledgements go to.
    """

    def __init__(
        self,
        connection: Connection,
        message: Msg,
        event: CloudEvent,
        finish: "Callable[[JetStreamDelivery], None]",
    ) -> None:
        self._connection, self._event, self._finish = connection, event, finish
        self._deliveries = int(message.metadata.num_delivered)
        self._received_s = asyncio.get_running_loop().time()
        self._is_ended = False
        self.reply: str = message.reply

    @property
    def event(self) -> CloudEvent:
        """What was published."""
        return self._event

    @property
    def deliveries(self) -> int:
        """How often it has been delivered, this time included."""
        return self._deliveries

    def is_overdue(self) -> bool:
        """Whether it lay here for so long that the server is about to deliver it to somebody else."""
        return asyncio.get_running_loop().time() - self._received_s > OVERDUE_S

    async def ack(self) -> None:
        """Done; returns when the server has confirmed it."""
        await self._end(ACK)

    async def retry(self, delay_s: float) -> None:
        """Deliver it again after a while, at most 30 s."""
        delay_ns = int(min(max(delay_s, 0.0), RETRY_MAX_S) * NANOSECONDS)
        await self._end(NAK + b" " + json.dumps({"delay": delay_ns}).encode() if delay_ns else NAK)

    async def drop(self, reason: str) -> None:
        """Never deliver it again."""
        await self._end(TERM + b" " + " ".join(reason.split()).encode()[:200])

    async def beat(self) -> None:
        """Still at work."""
        if not self._is_ended:
            await self._connection.send(self.reply, PROGRESS)

    async def _end(self, verdict: bytes) -> None:
        """Confirmed or not, it is over here: a server that did not hear it delivers again, so nothing may wait for it.

        A server that was killed within a fraction of a second of the delivery does not know of it, and says nothing.
        """
        if self._is_ended:
            return
        self._is_ended = True
        try:
            await self._connection.request(self.reply, verdict)
        finally:
            self._finish(self)
