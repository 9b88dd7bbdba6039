"""Subscriptions and their secrets, changed by pure code."""

import base64
from datetime import timedelta

import pytest

from hooks import subscription
from records import NOW
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.tenants import TENANT_MAX_BYTES, Tenant
from vitascope.contracts.webhooks import (
    DESCRIPTION_MAX_CHARS,
    END_EVENTS,
    JOB_EVENTS,
    MAX_SECRETS,
    MAX_SUBSCRIPTIONS,
    OVERLAP,
    SECRET_BYTES,
    URL_MAX_CHARS,
    SigningSecret,
    TenantWebhooks,
    change_subscription,
    find_subscription,
    list_valid_secrets,
    make_secret,
    put_subscription,
    remove_subscription,
    rotate_secrets,
)

SECOND = timedelta(seconds=1)


def secret(letter: str, hours: float = 0) -> SigningSecret:
    return make_secret(letter.encode() * SECRET_BYTES, NOW + timedelta(hours=hours))


def test_secret_is_as_the_standard_has_it() -> None:
    """The prefix, and base64 of the key."""
    made = secret("s").secret
    assert made.startswith("whsec_")
    assert b"s" * SECRET_BYTES == base64.b64decode(made.removeprefix("whsec_"), validate=True)


def test_a_webhook_that_does_not_say_is_told_of_ends() -> None:
    """Once a job, in other words; expiry is no end that anybody waits for."""
    assert {"job.succeeded", "job.failed", "job.cancelled", "job.refused", "job.withheld"} == set(END_EVENTS)
    assert set(END_EVENTS) < set(JOB_EVENTS)


def test_old_secret_signs_for_a_day() -> None:
    """Beside the new one, which comes first."""
    rows = rotate_secrets([secret("a")], secret("b"))
    both = (secret("b").secret, secret("a").secret)
    assert both == list_valid_secrets(rows, NOW + OVERLAP - SECOND)
    assert both[:1] == list_valid_secrets(rows, NOW + OVERLAP)


def test_second_rotation_does_not_lengthen_the_first_ones_end() -> None:
    """Each old secret has its own day."""
    rows = rotate_secrets(rotate_secrets([secret("a")], secret("b")), secret("c", hours=12))
    assert [None, NOW + 1.5 * OVERLAP, NOW + OVERLAP] == [row.expires for row in rows]


def test_secrets_do_not_pile_up() -> None:
    """Those that have ended go; and of those that have not, the oldest."""
    rows: tuple[SigningSecret, ...] = (secret("a"),)
    for letter in "bcde":
        rows = rotate_secrets(rows, secret(letter))
    assert [secret(letter).secret for letter in "edc"] == [row.secret for row in rows]
    assert MAX_SECRETS == len(rows)
    assert ["f", "e"] == [
        letter
        for row in rotate_secrets(rows, secret("f", 30))
        for letter in "abcdef"
        if row.secret == secret(letter).secret
    ]


def test_subscriptions_are_put_found_changed_and_removed() -> None:
    """By id; what is not there changes nothing."""
    first, second = subscription(), subscription()
    webhooks = put_subscription(put_subscription(TenantWebhooks(), first), second)
    assert (first, second) == webhooks.subscriptions
    renamed = first.model_copy(update={"description": "mine"})
    assert (renamed, second) == put_subscription(webhooks, renamed).subscriptions
    assert (renamed, second) == change_subscription(webhooks, first.id, description="mine").subscriptions
    assert second == find_subscription(webhooks, second.id)
    assert find_subscription(webhooks, subscription().id) is None
    assert (second,) == remove_subscription(webhooks, first.id).subscriptions
    assert webhooks == remove_subscription(webhooks, subscription().id)


def test_number_of_webhooks_is_bounded() -> None:
    """The one too many is refused; changing one that is there is not."""
    webhooks = TenantWebhooks()
    for _ in range(MAX_SUBSCRIPTIONS):
        webhooks = put_subscription(webhooks, subscription())
    with pytest.raises(VitascopeError) as refused:
        put_subscription(webhooks, subscription())
    assert FailureCode.INVALID_REQUEST is refused.value.code
    assert webhooks == put_subscription(webhooks, webhooks.subscriptions[3])


def test_largest_webhooks_fit_into_a_tenants_document() -> None:
    """With as much room for everything else."""
    secrets = tuple(secret(letter).model_copy(update={"expires": NOW}) for letter in "abcdefgh"[:MAX_SECRETS])
    row = subscription(
        url="u" * URL_MAX_CHARS,
        description="ü" * DESCRIPTION_MAX_CHARS,
        events=JOB_EVENTS,
        secrets=secrets,
        failing_since=NOW,
        disabled="d" * 100,
    )
    webhooks = TenantWebhooks(subscriptions=(row,) * MAX_SUBSCRIPTIONS, callback_secrets=secrets)
    stored = Tenant(name="acme", created=NOW, webhooks=webhooks).to_bytes()
    assert len(stored) < 0.6 * TENANT_MAX_BYTES
