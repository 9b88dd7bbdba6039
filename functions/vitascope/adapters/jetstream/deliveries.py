"""The deliveries of webhooks in a key-value bucket: `pending.…` under compare-and-set, `log.…` with a time to live."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import structlog
from nats.aio.msg import Msg
from pydantic import ValidationError

from vitascope.adapters.jetstream.api import (
    KV_OPERATION,
    MESSAGE_TTL,
    ROLLUP,
    StoredMessage,
    call_pages,
    get_last,
    store,
)
from vitascope.adapters.jetstream.connection import Connection
from vitascope.adapters.jetstream.ledger import compare_and_set
from vitascope.adapters.jetstream.watch import Watch
from vitascope.adapters.jetstream.work import Consumption, event_source
from vitascope.contracts.deliveries import Delivery, DeliveryPlace
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.subjects import BUCKET_DELIVERIES
from vitascope.runtime.deliveries import LOG_S, StampedDelivery
from vitascope.runtime.ports import Conflict
from vitascope.runtime.ports import Delivery as Event

_STREAM, _PREFIX = f"KV_{BUCKET_DELIVERIES}", f"$KV.{BUCKET_DELIVERIES}."
_PENDING, _LOG = f"{_PREFIX}pending.", f"{_PREFIX}log."
GONE_S = 60
"""What is left of a delivery that is pending no more goes after so long: longer than a request is sent again."""

log = structlog.get_logger(__name__)


class JetStreamDeliveryBook:
    """See `runtime.deliveries.DeliveryBook`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def add(self, delivery: Delivery) -> bool:
        """Put a new one in, unless its place is known."""
        key = _name(delivery.place)
        if await self._find(f"{_LOG}{key}") is not None:
            return False
        if not delivery.is_pending:
            await self._put_log(delivery)
            return True
        return await self.reopen(delivery)

    async def get(self, place: DeliveryPlace) -> StampedDelivery | None:
        """The pending one, or else that of the log."""
        key = _name(place)
        if (message := await self._find(f"{_PENDING}{key}")) is not None:
            return StampedDelivery(_parse(key, message.payload), message.sequence)
        if (message := await self._find(f"{_LOG}{key}")) is not None:
            return StampedDelivery(_parse(key, message.payload), 0)
        return None

    async def replace(self, current: StampedDelivery, delivery: Delivery) -> StampedDelivery:
        """Compare-and-set; into the log first, if it has ended."""
        subject, headers, payload = f"{_PENDING}{_name(delivery.place)}", None, delivery.to_bytes()
        if not delivery.is_pending:
            held = await self._find(subject)
            if held is None or held.sequence != current.revision:  # or the log would say what never came to be
                raise Conflict(f"{subject} is no longer at revision {current.revision}")
            await self._put_log(delivery)
            headers, payload = {KV_OPERATION: "PURGE", ROLLUP: "sub", MESSAGE_TTL: f"{GONE_S}s"}, b""
        revision = await compare_and_set(self._connection, subject, payload, revision=current.revision, headers=headers)
        return StampedDelivery(delivery, revision)

    async def reopen(self, delivery: Delivery) -> bool:
        """Put it among the pending ones, unless it is there; what is left of an older one there is overwritten."""
        assert delivery.is_pending, "what has ended belongs into the log"
        subject = f"{_PENDING}{_name(delivery.place)}"
        held = await get_last(self._connection, _STREAM, subject)
        if held is not None and KV_OPERATION not in held.headers:
            return False
        try:
            revision = 0 if held is None else held.sequence
            await compare_and_set(self._connection, subject, delivery.to_bytes(), revision=revision)
        except Conflict:
            return False
        return True

    async def list_ids(self, tenant: str, target: str) -> Sequence[str]:
        """The ids of a target's deliveries, the newest job's first."""
        found: set[str] = set()
        for prefix in (_PENDING, _LOG):
            filtered = {"subjects_filter": f"{prefix}{tenant}.{target}.*"}
            async for page in call_pages(self._connection, f"STREAM.INFO.{_STREAM}", filtered):
                found.update(subject.rpartition(".")[2] for subject in page["state"].get("subjects") or ())
        return sorted(found, reverse=True)

    def watch(self) -> AbstractAsyncContextManager[AsyncIterator[StampedDelivery | DeliveryPlace | None]]:
        """All pending ones, None, then every change."""
        return self._watch()

    @asynccontextmanager
    async def _watch(self) -> AsyncIterator[AsyncIterator[StampedDelivery | DeliveryPlace | None]]:
        async with Watch(self._connection, _STREAM, f"{_PENDING}>") as watch:
            yield _rows(watch)

    async def _find(self, subject: str) -> StoredMessage | None:
        message = await get_last(self._connection, _STREAM, subject)
        return None if message is None or KV_OPERATION in message.headers else message

    async def _put_log(self, delivery: Delivery) -> None:
        subject = f"{_LOG}{_name(delivery.place)}"
        await store(self._connection, subject, delivery.to_bytes(), {MESSAGE_TTL: f"{LOG_S}s"})


class JetStreamEventFeed:
    """See `runtime.deliveries.EventFeed`: one durable consumer that all processes share."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def consume(self, *, limit: int) -> AbstractAsyncContextManager[AsyncIterator[Event]]:
        """Take events."""
        return Consumption(self._connection, event_source(), limit=limit)


def _name(place: DeliveryPlace) -> str:
    return f"{place.tenant}.{place.target}.{place.id}"


def _parse(key: str, stored: bytes) -> Delivery:
    try:
        return Delivery.from_bytes(stored)
    except ValidationError as error:
        raise VitascopeError(FailureCode.INTERNAL_ERROR, f"The delivery {key} cannot be read.") from error


async def _rows(watch: Watch) -> AsyncIterator[StampedDelivery | DeliveryPlace | None]:
    async for message in watch:
        if message is None:
            yield None
        elif (row := _read(message)) is not None:
            yield row


def _read(message: Msg) -> StampedDelivery | DeliveryPlace | None:
    key = message.subject.removeprefix(_PENDING)
    if KV_OPERATION in (message.headers or {}):
        return DeliveryPlace(*key.split("."))
    try:
        return StampedDelivery(_parse(key, message.data), message.metadata.sequence.stream)
    except VitascopeError as error:
        log.error("deliveries.unreadable_row", key=key, error=str(error))  # noqa: TRY400 (the cause holds the body)
        return None
