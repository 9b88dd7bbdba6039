"""The bodies of requests and answers about webhooks and their deliveries."""

from typing import Literal

from pydantic import AwareDatetime, Field

from vitascope.contracts.deliveries import Delivery, DeliveryState
from vitascope.contracts.frozen import Frozen
from vitascope.contracts.webhooks import (
    DESCRIPTION_MAX_CHARS,
    END_EVENTS,
    JOB_EVENTS,
    URL_MAX_CHARS,
    Subscription,
)

JobEvent = Literal[JOB_EVENTS]  # type: ignore[valid-type]  # the names are computed from the states
MAX_PAGE = 100


class WebhookBody(Frozen):
    """A new webhook."""

    url: str = Field(min_length=1, max_length=URL_MAX_CHARS, description="http or https, of a public address")
    events: list[JobEvent] = Field(
        list(END_EVENTS), min_length=1, max_length=len(JOB_EVENTS), description="what is told; how jobs end, if absent"
    )
    description: str = Field("", max_length=DESCRIPTION_MAX_CHARS, description="for people")


class WebhookPatch(Frozen):
    """What of a webhook can be changed; what is not named stays."""

    url: str = Field("", min_length=1, max_length=URL_MAX_CHARS)
    events: list[JobEvent] = Field([], min_length=1, max_length=len(JOB_EVENTS))
    description: str = Field("", max_length=DESCRIPTION_MAX_CHARS)
    enabled: bool = Field(
        default=True, description="false: nothing is sent, and what was pending is dead when it is due"
    )


class ReplayBody(Frozen):
    """Which deliveries are made again."""

    since: AwareDatetime = Field(description="those of events since then")
    status: list[DeliveryState] = Field([DeliveryState.DEAD], min_length=1, description="of those that have ended")


class WebhookView(Frozen):
    """A webhook; its secret is shown when it is made."""

    object: Literal["webhook"] = "webhook"
    id: str
    url: str
    description: str
    events: list[str]
    enabled: bool
    disabled_reason: str | None = Field(description="why nothing is sent, in words")
    failing_since: AwareDatetime | None = Field(description="since when nothing has arrived; null: it works")
    secrets: int = Field(description="that sign at present; two for a day after a rotation")
    created_at: AwareDatetime


class FreshWebhookView(WebhookView):
    """A webhook that was just made."""

    secret: str = Field(description="`whsec_…` of Standard Webhooks; not shown again")


class WebhookListView(Frozen):
    """All webhooks of a tenant."""

    object: Literal["list"] = "list"
    data: list[WebhookView]


class SecretView(Frozen):
    """A signing secret."""

    object: Literal["webhook.secret"] = "webhook.secret"
    secret: str
    old_secrets_sign_until: AwareDatetime | None = Field(None, description="null: there is no old one")


class AttemptView(Frozen):
    """One try to deliver. What the receiver answered is not kept, but for its status."""

    at: AwareDatetime
    ms: int = Field(description="milliseconds that it took")
    status_code: int | None = Field(description="null: there was no answer")
    error: str | None = Field(description="why not, in a word: `fetch_failed`, `address_not_allowed`")


class DeliveryView(Frozen):
    """One event on its way to one webhook."""

    object: Literal["webhook.delivery"] = "webhook.delivery"
    id: str
    webhook: str = Field(description="its id, or `callback` for the `callback_url` of a job")
    event_id: str = Field(description="what is sent as `webhook-id`: equal for all tries and replays")
    event: str
    job: str | None
    status: DeliveryState
    reason: str | None = Field(description="why it is dead, in words")
    tries: int = Field(description="since it was made or replayed")
    attempts: list[AttemptView] = Field(description="the newest twenty, the last one last")
    next_try_at: AwareDatetime | None
    created_at: AwareDatetime
    ended_at: AwareDatetime | None


class DeliveryListView(Frozen):
    """A page of the log, those of the newest jobs first."""

    object: Literal["list"] = "list"
    data: list[DeliveryView]
    first_id: str | None
    last_id: str | None
    has_more: bool


class ReplayView(Frozen):
    """How many deliveries are on their way again."""

    replayed: int
    has_more: bool = Field(description="there were more than one request replays: ask again")


def present_webhook(row: Subscription, num_secrets: int) -> WebhookView:
    """The view of a subscription with so many valid secrets."""
    return WebhookView(
        id=row.id,
        url=row.url,
        description=row.description,
        events=list(row.events),
        enabled=row.disabled is None,
        disabled_reason=row.disabled,
        failing_since=row.failing_since,
        secrets=num_secrets,
        created_at=row.created,
    )


def present_delivery(delivery: Delivery) -> DeliveryView:
    """The view of a delivery; the address of a callback stands in its job."""
    return DeliveryView(
        id=delivery.id,
        webhook=delivery.target,
        event_id=delivery.event_id,
        event=delivery.event,
        job=delivery.job,
        status=delivery.state,
        reason=delivery.reason,
        tries=delivery.tries,
        attempts=[AttemptView(at=a.at, ms=a.ms, status_code=a.status_code, error=a.error) for a in delivery.attempts],
        next_try_at=delivery.next_try,
        created_at=delivery.created,
        ended_at=delivery.ended,
    )
