"""A delivery: one event on its way to one webhook, with the log of what was tried. The changes here are pure.

It is what is stored, so that a restart forgets neither what is due nor what was tried; what a receiver answered is
never part of it.
"""

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated

from pydantic import AwareDatetime, Field, JsonValue, StringConstraints
from ulid import ULID

from vitascope.contracts.events import TYPE_PREFIX, CloudEvent
from vitascope.contracts.frozen import Stored
from vitascope.contracts.ids import JobId, Token, is_job_id, read_job_time
from vitascope.contracts.webhooks import CALLBACK, WEBHOOK_PATTERN

DELIVERY_PREFIX = "wd_"
DELIVERY_PATTERN = r"^wd_[0-9A-HJKMNP-TV-Z]{26}$"
TARGET_PATTERN = rf"{WEBHOOK_PATTERN}|^{CALLBACK}$"
BODY_MAX_BYTES = 16 * 1024
"""An event holds a state and a failure of at most 1,000 characters; a larger one is none of ours."""
MAX_ATTEMPTS_KEPT = 20
"""The newest tries that the log shows; three days of back-off are fewer."""
RETRY_FIRST_S = 5.0
RETRY_FACTOR = 3.0
RETRY_MAX_S = 8 * 3600.0
JITTER = 0.25
"""A wait is up to so much longer, so that what failed together does not come again together."""
ENVELOPE_VERSION = ".v1"


class DeliveryState(StrEnum):
    """What has become of a delivery."""

    PENDING = "pending"
    """It will be tried, or tried again."""
    DELIVERED = "delivered"
    """The receiver answered 2xx."""
    DEAD = "dead"
    """It will not be tried again, unless somebody replays it; `reason` says why."""
    SUPERSEDED = "superseded"
    """It had failed, and then its job reached another state: only that one is told."""


class Attempt(Stored):
    """One try. Either the receiver answered, or `error` says in a word why there is no answer."""

    at: AwareDatetime
    ms: int = Field(ge=0, description="milliseconds that it took")
    status_code: int | None = None
    error: str | None = None


@dataclass(frozen=True)
class DeliveryPlace:
    """Where a delivery is found. `target` is a subscription's id or `CALLBACK`."""

    tenant: str
    target: str
    id: str


class Delivery(Stored):
    """The event, its way so far, and what comes next."""

    version: int = 1
    id: Annotated[str, StringConstraints(pattern=DELIVERY_PATTERN)]
    tenant: Token
    target: Annotated[str, StringConstraints(pattern=TARGET_PATTERN)]
    url: str | None = Field(None, description="of a callback; a subscription's own is looked up at each try")
    event_id: str = Field(description="the `webhook-id`: equal for all tries, so that a receiver can drop copies")
    event: str = Field(description="what happened, as `job.succeeded`")
    body: str = Field(description="exactly what is sent and signed")
    job: JobId | None = None
    sequence: int = Field(0, ge=0, description="rises with each state of a job")
    created: AwareDatetime
    state: DeliveryState = DeliveryState.PENDING
    next_try: AwareDatetime | None = Field(None, description="None once it has ended")
    give_up: AwareDatetime = Field(description="no try is made after that")
    tries: int = Field(0, ge=0, description="since it was made or replayed")
    attempts: tuple[Attempt, ...] = Field((), description="the newest last")
    reason: str | None = Field(None, description="why it is dead, in words")
    ended: AwareDatetime | None = None
    is_replay: bool = False

    @property
    def place(self) -> DeliveryPlace:
        """Where it is found."""
        return DeliveryPlace(self.tenant, self.target, self.id)

    @property
    def is_pending(self) -> bool:
        """Whether it will be tried."""
        return self.state is DeliveryState.PENDING

    def to_bytes(self) -> bytes:
        """The form that is stored: JSON, UTF-8."""
        return self.model_dump_json(exclude_none=True).encode()

    @classmethod
    def from_bytes(cls, stored: bytes) -> "Delivery":
        """The delivery that `to_bytes` stored.

        Raises:
            pydantic.ValidationError: it is none.
        """
        return cls.model_validate_json(stored)


def name_event(event_type: str) -> str:
    """The short name of an event's type: `job.succeeded` of `dev.vitascope.job.succeeded.v1`."""
    return event_type.removeprefix(f"{TYPE_PREFIX}.").removesuffix(ENVELOPE_VERSION)


def make_delivery_id(target: str, event: CloudEvent, now: datetime) -> str:
    """The id, equal for copies of one event to one target; ids sort by the time of their jobs, or of the test."""
    at = read_job_time(event.subject) if event.subject and is_job_id(event.subject) else now
    tail = hashlib.sha256(f"{target}\n{event.source}\n{event.id}".encode()).digest()[:10]
    return f"{DELIVERY_PREFIX}{ULID(ULID.from_datetime(at).bytes[:6] + tail)}"


def make_body(event: CloudEvent, now: datetime) -> str:
    """What is sent, in the form that Standard Webhooks recommends: type, timestamp and data.

    Raises:
        ValueError: it is larger than `BODY_MAX_BYTES`.
    """
    at = (event.time or now).isoformat().replace("+00:00", "Z")
    envelope = {"type": name_event(event.type), "timestamp": at, "data": _make_view(event)}
    body = json.dumps(envelope, separators=(",", ":"), ensure_ascii=False)
    if len(body.encode()) > BODY_MAX_BYTES:
        raise ValueError(f"event {event.id} is too large for a webhook")
    return body


def make_delivery(
    event: CloudEvent, target: str, tenant: str, *, url: str | None, now: datetime, life: timedelta
) -> Delivery:
    """A delivery that is due at once.

    Raises:
        ValueError: the event is too large.
    """
    job = event.subject if event.subject and is_job_id(event.subject) else None
    return Delivery(
        id=make_delivery_id(target, event, now),
        tenant=tenant,
        target=target,
        url=url,
        event_id=event.id,
        event=name_event(event.type),
        body=make_body(event, now),
        job=job,
        sequence=int(event.extensions.get("sequence", "0")),
        created=now,
        next_try=now,
        give_up=now + life,
    )


def compute_retry_s(tries: int, draw: float) -> float:
    """Seconds from the end of try number `tries` to the next; `draw` is uniform in [0, 1)."""
    assert tries >= 1, "a retry follows a try"
    wait_s = min(RETRY_FIRST_S * RETRY_FACTOR ** min(tries - 1, 16), RETRY_MAX_S)
    return wait_s * (1 + JITTER * draw)


def note_success(delivery: Delivery, attempt: Attempt, now: datetime) -> Delivery:
    """Arrived."""
    return _end(_add(delivery, attempt), DeliveryState.DELIVERED, None, now)


def note_failure(delivery: Delivery, attempt: Attempt, now: datetime, draw: float) -> Delivery:
    """Not arrived: due again later, or dead if that would be after `give_up`."""
    tried = _add(delivery, attempt)
    next_try = now + timedelta(seconds=compute_retry_s(tried.tries, draw))
    if next_try > tried.give_up:
        return end_dead(tried, "It did not arrive in time.", now)
    return tried.model_copy(update={"next_try": next_try})


def note_last(delivery: Delivery, attempt: Attempt, reason: str, now: datetime) -> Delivery:
    """Not arrived, and there is no use in trying again."""
    return end_dead(_add(delivery, attempt), reason, now)


def end_dead(delivery: Delivery, reason: str, now: datetime) -> Delivery:
    """Not to be tried any more."""
    return _end(delivery, DeliveryState.DEAD, reason, now)


def supersede(delivery: Delivery, now: datetime) -> Delivery:
    """Overtaken by a newer state of its job."""
    return _end(delivery, DeliveryState.SUPERSEDED, None, now)


def replay(delivery: Delivery, now: datetime, life: timedelta) -> Delivery:
    """Due at once, with all its tries before it; the same `webhook-id` and body as ever."""
    again = {
        "state": DeliveryState.PENDING,
        "next_try": now,
        "give_up": now + life,
        "tries": 0,
        "reason": None,
        "ended": None,
        "is_replay": True,
    }
    return delivery.model_copy(update=again)


def _add(delivery: Delivery, attempt: Attempt) -> Delivery:
    attempts = (*delivery.attempts, attempt)[-MAX_ATTEMPTS_KEPT:]
    return delivery.model_copy(update={"tries": delivery.tries + 1, "attempts": attempts})


def _end(delivery: Delivery, state: DeliveryState, reason: str | None, now: datetime) -> Delivery:
    return delivery.model_copy(update={"state": state, "reason": reason, "next_try": None, "ended": now})


def _make_view(event: CloudEvent) -> JsonValue:
    """The data as the API has it: a job's `status` and `error` in the words of `GET /v1/video-jobs/{id}`."""
    if not isinstance(event.data, dict) or "job" not in event.data:
        return event.data
    data, failure = event.data, event.data.get("failure")
    error: JsonValue = None
    if isinstance(failure, dict):
        error = {name: failure.get(name) for name in ("code", "message", "stage")}
    return {
        "id": data["job"],
        "status": data.get("state"),
        "attempt": data.get("attempt"),
        "reason": data.get("reason"),
        "error": error,
    }
