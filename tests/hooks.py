"""Webhooks for tests: events, deliveries, subscriptions, and receivers that behave as they are told."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from records import NOW, record_in
from vitascope.contracts.deliveries import Delivery, make_delivery
from vitascope.contracts.events import CloudEvent, make_job_event
from vitascope.contracts.flow import State
from vitascope.contracts.jobs import JobRecord
from vitascope.contracts.webhooks import SECRET_BYTES, Subscription, make_secret, make_webhook_id

LIFE = timedelta(days=3)
URL = "https://example.com/hook"


def job_event(state: State = State.SUCCEEDED, now: datetime = NOW, revision: int = 7, **changes: Any) -> CloudEvent:
    """The public event of a new job in that state."""
    return make_job_event(record_in(state, now, **changes), revision, now)


def event_of(record: JobRecord, revision: int, now: datetime = NOW) -> CloudEvent:
    """The public event of a job."""
    return make_job_event(record, revision, now)


def subscription(now: datetime = NOW, **changes: Any) -> Subscription:
    """A webhook whose secret is 32 times its last letter."""
    secret = make_secret(b"s" * SECRET_BYTES, now)
    row = Subscription(id=make_webhook_id(now), url=URL, secrets=(secret,), created=now)
    return row.model_copy(update=changes)


def delivery(
    target: str,
    event: CloudEvent | None = None,
    *,
    tenant: str = "default",
    url: str | None = None,
    now: datetime = NOW,
    **changes: Any,
) -> Delivery:
    """A pending delivery that is due now."""
    made = make_delivery(event or job_event(now=now), target, tenant, url=url, now=now, life=LIFE)
    return made.model_copy(update=changes)


@dataclass(frozen=True)
class Sent:
    """One message that was posted."""

    url: str
    body: bytes
    headers: Mapping[str, str]

    @property
    def id(self) -> str:
        """The `webhook-id`."""
        return self.headers["webhook-id"]


Behaviour = Callable[[], Awaitable[int]]


async def answer_ok() -> int:
    """200."""
    return 200


async def answer_never() -> int:
    """As one that takes the connection and says nothing."""
    await asyncio.Event().wait()
    raise AssertionError("not reached")


def answer(status: int) -> Behaviour:
    """That status, always."""

    async def behave() -> int:
        return status

    return behave


def fail(error: Exception) -> Behaviour:
    """That error, always."""

    async def behave() -> int:
        raise error

    return behave


@dataclass
class Receivers:
    """In place of the network: what each URL does, and all that was posted. Others answer 200."""

    behaviours: dict[str, Behaviour] = field(default_factory=dict)
    sent: list[Sent] = field(default_factory=list)
    open: int = 0
    most_open: int = 0

    async def post(self, url: str, body: bytes, headers: Mapping[str, str], timeout_s: float) -> int:
        """As `outbound.Outbound.post`, without its time limit."""
        assert timeout_s > 0
        self.sent.append(Sent(url, body, dict(headers)))
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            return await self.behaviours.get(url, answer_ok)()
        finally:
            self.open -= 1

    def list_sent(self, url: str) -> list[str]:
        """The ids of what was posted to a URL, in order."""
        return [sent.id for sent in self.sent if sent.url == url]
