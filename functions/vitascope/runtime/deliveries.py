"""The deliveries of webhooks: what is due and what was tried, and the feed of public events that makes them.

A delivery is in one of two places: among those that are pending, under compare-and-set, where the process that sends
follows them; or in the log, where it stays for `LOG_S`. It is put into the log before it is taken from the pending
ones, so it is lost at no moment; whoever finds it in both places goes by the pending one.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from vitascope.contracts.deliveries import Delivery, DeliveryPlace
from vitascope.runtime.ports import Delivery as Event

LOG_S = 7 * 86_400
"""How long the log shows a delivery that has ended."""


@dataclass(frozen=True)
class StampedDelivery:
    """A delivery as the book holds it; `revision` rises with every change of any of them, and is 0 in the log."""

    delivery: Delivery
    revision: int


class DeliveryBook(Protocol):
    """All deliveries. Every method may raise `bus_unavailable`."""

    async def add(self, delivery: Delivery) -> bool:
        """Put a new one among the pending ones, or if it has ended into the log; False if its place is known."""
        ...

    async def get(self, place: DeliveryPlace) -> StampedDelivery | None:
        """The pending one, or else that of the log, or None."""
        ...

    async def replace(self, current: StampedDelivery, delivery: Delivery) -> StampedDelivery:
        """Compare-and-set of a pending one; one that has ended goes into the log, and is pending no more.

        Raises:
            Conflict: the book holds another.
        """
        ...

    async def reopen(self, delivery: Delivery) -> bool:
        """Put one that had ended among the pending ones again; False if it is there already."""
        ...

    async def list_ids(self, tenant: str, target: str) -> Sequence[str]:
        """The ids of a target's deliveries, pending or in the log, the newest job's first."""
        ...

    def watch(self) -> AbstractAsyncContextManager[AsyncIterator["StampedDelivery | DeliveryPlace | None"]]:
        """All pending ones, then None once, then every change; the place of one that is pending no more.

        As `Ledger.watch`: what is known may come again, and what is gone need not be said.
        """
        ...


class EventFeed(Protocol):
    """The public events, each until somebody has acknowledged it: a place is kept over restarts."""

    def consume(self, *, limit: int) -> AbstractAsyncContextManager[AsyncIterator[Event]]:
        """Take events, the oldest first, at most `limit` unfinished at once."""
        ...
