"""Webhook subscriptions: who is told what, where, and signed with which secrets. The changes here are pure."""

import base64
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Annotated

from pydantic import AwareDatetime, Field, StringConstraints
from ulid import ULID

from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.flow import TERMINAL, State
from vitascope.contracts.frozen import Stored

WEBHOOK_PREFIX = "wh_"
WEBHOOK_PATTERN = r"^wh_[0-9A-HJKMNP-TV-Z]{26}$"
CALLBACK = "callback"
"""In place of a subscription's id: the `callback_url` of the tenant's jobs."""
SECRET_PREFIX = "whsec_"  # noqa: S105 (how a secret begins, none itself)
SECRET_BYTES = 32
"""Standard Webhooks asks for 24 to 64."""
OVERLAP = timedelta(hours=24)
"""How long the old secret goes on signing beside a new one."""
MAX_SUBSCRIPTIONS = 16
"""Of one tenant: with `URL_MAX_CHARS` and `MAX_SECRETS` they take less than half of a tenant's document, in ASCII."""
MAX_SECRETS = 3
"""That sign at once: the newest, and those that are going out of use; a rotation too many ends the oldest."""
URL_MAX_CHARS = 1024
DESCRIPTION_MAX_CHARS = 200

JOB_EVENTS = tuple(f"job.{state}" for state in State)
"""The events that a subscription can ask for."""
END_EVENTS = tuple(f"job.{state}" for state in State if state in TERMINAL - {State.EXPIRED})
"""What a subscription gets that does not say, and the `callback_url` of a job: how it ended."""
TEST_EVENT = "webhook.test"

WebhookId = Annotated[str, StringConstraints(pattern=WEBHOOK_PATTERN)]


class SigningSecret(Stored):
    """`whsec_` and base64 of the key. It must be kept in the clear, since it signs; only its owner is shown it."""

    secret: str
    created: AwareDatetime
    expires: AwareDatetime | None = Field(None, description="signs until then; None for the newest")


class Subscription(Stored):
    """An address of a tenant that is told of events of its jobs."""

    id: WebhookId
    url: str = Field(max_length=URL_MAX_CHARS)
    description: str = Field("", max_length=DESCRIPTION_MAX_CHARS)
    events: tuple[str, ...] = Field(END_EVENTS, description="of `JOB_EVENTS`")
    secrets: tuple[SigningSecret, ...] = Field(min_length=1, description="the newest first")
    created: AwareDatetime
    failing_since: AwareDatetime | None = Field(None, description="since when nothing has arrived; None: it works")
    disabled: str | None = Field(None, description="why nothing is sent, in words; None: it is")


class TenantWebhooks(Stored):
    """All of a tenant's webhooks: a part of its document."""

    subscriptions: tuple[Subscription, ...] = ()
    callback_secrets: tuple[SigningSecret, ...] = Field((), description="made when first needed; the newest first")


def make_webhook_id(now: datetime) -> str:
    """A new id; ids sort by the millisecond in which they were made."""
    return f"{WEBHOOK_PREFIX}{ULID.from_datetime(now)}"


def make_secret(entropy: bytes, now: datetime) -> SigningSecret:
    """A secret of `SECRET_BYTES` random bytes."""
    assert len(entropy) == SECRET_BYTES, "a secret is as long as its bytes"
    return SigningSecret(secret=f"{SECRET_PREFIX}{base64.b64encode(entropy).decode()}", created=now)


def list_valid_secrets(secrets: Collection[SigningSecret], now: datetime) -> tuple[str, ...]:
    """Those that sign at a moment, the newest first."""
    return tuple(row.secret for row in secrets if row.expires is None or now < row.expires)


def rotate_secrets(secrets: Collection[SigningSecret], fresh: SigningSecret) -> tuple[SigningSecret, ...]:
    """The fresh one first; the others sign for `OVERLAP` more, or to their own earlier end."""
    end = fresh.created + OVERLAP
    old = [
        row.model_copy(update={"expires": end if row.expires is None else min(end, row.expires)})
        for row in secrets
        if row.expires is None or fresh.created < row.expires
    ]
    return (fresh, *old)[:MAX_SECRETS]


def find_subscription(webhooks: TenantWebhooks, webhook: str) -> Subscription | None:
    """The subscription with that id, or None."""
    return next((row for row in webhooks.subscriptions if row.id == webhook), None)


def put_subscription(webhooks: TenantWebhooks, subscription: Subscription) -> TenantWebhooks:
    """With the subscription in it: in place of the one with its id, else as the last.

    Raises:
        VitascopeError: `invalid_request`, there are `MAX_SUBSCRIPTIONS` others.
    """
    rows = list(webhooks.subscriptions)
    places = [index for index, row in enumerate(rows) if row.id == subscription.id]
    if places:
        rows[places[0]] = subscription
    elif len(rows) >= MAX_SUBSCRIPTIONS:
        detail = f"A tenant has at most {MAX_SUBSCRIPTIONS} webhooks; delete one."
        raise VitascopeError(FailureCode.INVALID_REQUEST, detail)
    else:
        rows.append(subscription)
    return webhooks.model_copy(update={"subscriptions": tuple(rows)})


def change_subscription(webhooks: TenantWebhooks, webhook: str, **changes: object) -> TenantWebhooks:
    """With other values in that subscription; without it, nothing changes."""
    rows = tuple(row.model_copy(update=changes) if row.id == webhook else row for row in webhooks.subscriptions)
    return webhooks.model_copy(update={"subscriptions": rows})


def remove_subscription(webhooks: TenantWebhooks, webhook: str) -> TenantWebhooks:
    """Without that subscription, if there is one."""
    kept = tuple(row for row in webhooks.subscriptions if row.id != webhook)
    return webhooks.model_copy(update={"subscriptions": kept})
