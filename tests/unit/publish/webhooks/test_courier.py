"""One try of a delivery: where it goes, what signs it, what comes of it."""

from datetime import timedelta
from typing import Any

import pytest
from standardwebhooks import Webhook

from hooks import URL, answer, delivery, fail, subscription
from records import NOW
from unit.publish.webhooks.world import DISABLE_AFTER, HookWorld
from vitascope.contracts.deliveries import Delivery, DeliveryState
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.tenants import Tenant
from vitascope.contracts.webhooks import CALLBACK, change_subscription, remove_subscription, rotate_secrets
from vitascope.contracts.webhooks import make_secret as make

HOUR = timedelta(hours=1)
CALLBACK_URL = "https://example.com/job"


async def carry(hooks: HookWorld, row: Delivery, *, is_overtaken: bool = False) -> Delivery:
    await hooks.book.add(row)
    await hooks.courier.carry(row.place, lambda: is_overtaken)
    return await hooks.load(row)


async def change(hooks: HookWorld, **changes: Any) -> None:
    def apply(tenant: Tenant) -> Tenant:
        return tenant.model_copy(update=changes)

    await hooks.tenants.change("default", apply)


async def test_message_arrives_and_is_verified(hooks: HookWorld) -> None:
    """The body as it was stored, signed by the webhook's secret at the time of the try."""
    row = delivery((await hooks.subscribe()).id)
    done = await carry(hooks, row)
    (sent,) = hooks.receivers.sent
    assert (URL, row.body.encode(), row.event_id) == (sent.url, sent.body, sent.id)
    assert str(int(NOW.timestamp())) == sent.headers["webhook-timestamp"]
    expected = Webhook(subscription().secrets[0].secret).sign(sent.id, NOW, row.body)
    assert expected == sent.headers["webhook-signature"]
    assert (DeliveryState.DELIVERED, [200]) == (done.state, [attempt.status_code for attempt in done.attempts])


async def test_both_secrets_sign_after_a_rotation(hooks: HookWorld) -> None:
    """And only the new one a day later."""
    row = await hooks.subscribe()
    secrets = rotate_secrets(row.secrets, make(b"n" * 32, NOW))
    tenant = await hooks.tenants.get("default")
    assert tenant is not None
    await change(hooks, webhooks=change_subscription(tenant.webhooks, row.id, secrets=secrets))
    await carry(hooks, delivery(row.id))
    hooks.time.advance(86_400)
    await carry(hooks, delivery(row.id, now=NOW + 24 * HOUR))
    assert [2, 1] == [len(sent.headers["webhook-signature"].split()) for sent in hooks.receivers.sent]


@pytest.mark.parametrize(
    ("behaviour", "status", "error"),
    [
        (answer(500), 500, None),
        (answer(302), 302, None),
        (answer(404), 404, None),
        (fail(VitascopeError(FailureCode.FETCH_FAILED)), None, "fetch_failed"),
        (fail(VitascopeError(FailureCode.ADDRESS_NOT_ALLOWED)), None, "address_not_allowed"),
        (fail(OSError("odd")), None, "internal_error"),
        (fail(ValueError("odd")), None, "internal_error"),
    ],
    ids=["server error", "redirect", "not found", "no answer", "address", "socket", "nonsense"],
)
async def test_failures_are_tried_again(
    hooks: HookWorld, behaviour: Any, status: int | None, error: str | None
) -> None:
    """What is kept of them is a number or a word."""
    hooks.receivers.behaviours[URL] = behaviour
    done = await carry(hooks, delivery((await hooks.subscribe()).id))
    (attempt,) = done.attempts
    assert (DeliveryState.PENDING, status, error) == (done.state, attempt.status_code, attempt.error)
    assert NOW + timedelta(seconds=5) == done.next_try


async def test_changed_address_holds_for_what_is_pending(hooks: HookWorld) -> None:
    """It is looked up at each try."""
    row = await hooks.subscribe()
    tenant = await hooks.tenants.get("default")
    assert tenant is not None
    await change(hooks, webhooks=change_subscription(tenant.webhooks, row.id, url="https://example.com/new"))
    await carry(hooks, delivery(row.id))
    assert ["https://example.com/new"] == [sent.url for sent in hooks.receivers.sent]


async def test_nothing_is_sent_for_who_is_gone(hooks: HookWorld) -> None:
    """Deleted, disabled, or its tenant disabled: the log says which."""
    deleted, disabled, kept = [await hooks.subscribe() for _ in range(3)]
    tenant = await hooks.tenants.get("default")
    assert tenant is not None
    webhooks = remove_subscription(tenant.webhooks, deleted.id)
    await change(hooks, webhooks=change_subscription(webhooks, disabled.id, disabled="It was switched off."))
    ends = [await carry(hooks, delivery(row.id)) for row in (deleted, disabled)]
    await change(hooks, is_disabled=True)
    ends.append(await carry(hooks, delivery(kept.id)))
    assert ["The webhook was deleted.", "The webhook is disabled.", "The tenant is disabled."] == [
        end.reason for end in ends
    ]
    assert {DeliveryState.DEAD} == {end.state for end in ends}
    assert [] == hooks.receivers.sent


async def test_callbacks_have_a_secret_of_the_tenants_own(hooks: HookWorld) -> None:
    """Made at the first, used for all."""
    for number in range(2):
        row = delivery(CALLBACK, url=CALLBACK_URL, now=NOW + number * HOUR)
        assert DeliveryState.DELIVERED is (await carry(hooks, row)).state
    tenant = await hooks.tenants.get("default")
    assert tenant is not None
    (secret,) = tenant.webhooks.callback_secrets
    for sent in hooks.receivers.sent:
        assert CALLBACK_URL == sent.url
        signed = Webhook(secret.secret).sign(sent.id, NOW, sent.body.decode())
        assert signed == sent.headers["webhook-signature"]


async def test_gone_means_never_again(hooks: HookWorld) -> None:
    """410 ends the delivery, and switches the webhook off."""
    row = await hooks.subscribe()
    hooks.receivers.behaviours[URL] = answer(410)
    done = await carry(hooks, delivery(row.id))
    assert (DeliveryState.DEAD, 1) == (done.state, done.tries)
    assert "410" in ((await hooks.load_subscription(row)).disabled or "")


async def test_overtaken_delivery_is_not_tried_again(hooks: HookWorld) -> None:
    """If it failed; one that arrived has arrived."""
    row = await hooks.subscribe()
    arrived = await carry(hooks, delivery(row.id), is_overtaken=True)
    hooks.receivers.behaviours[URL] = answer(500)
    failed = await carry(hooks, delivery(row.id, now=NOW + HOUR), is_overtaken=True)
    assert [DeliveryState.DELIVERED, DeliveryState.SUPERSEDED] == [arrived.state, failed.state]


async def test_webhook_that_only_fails_is_switched_off(hooks: HookWorld) -> None:
    """After days, counted from its first failure; single failures are not even noted."""
    row = await hooks.subscribe()
    hooks.receivers.behaviours[URL] = answer(500)
    made = delivery(row.id, give_up=NOW + 2 * DISABLE_AFTER)
    await hooks.book.add(made)
    for wait_s in (5, 15, 45):
        assert (await hooks.load_subscription(row)).failing_since is None
        await hooks.courier.carry(made.place, lambda: False)
        hooks.time.advance(wait_s)
    assert NOW == (await hooks.load_subscription(row)).failing_since
    hooks.time.advance(DISABLE_AFTER.total_seconds() - 66)
    await hooks.courier.carry(made.place, lambda: False)
    assert (await hooks.load_subscription(row)).disabled is None
    hooks.time.advance(1)
    await hooks.courier.carry(made.place, lambda: False)
    assert "Nothing has arrived since 2026-01-02 03:04 UTC." == (await hooks.load_subscription(row)).disabled


async def test_one_success_makes_a_webhook_well(hooks: HookWorld) -> None:
    """It begins anew."""
    row = await hooks.subscribe(failing_since=NOW - HOUR)
    await carry(hooks, delivery(row.id))
    assert (await hooks.load_subscription(row)).failing_since is None


async def test_delivery_that_ended_meanwhile_is_not_sent(hooks: HookWorld) -> None:
    """Another process was faster; or it is not there at all."""
    row = delivery((await hooks.subscribe()).id)
    await carry(hooks, row)
    assert await hooks.courier.carry(row.place, lambda: False) is None
    assert await hooks.courier.carry(delivery(subscription().id).place, lambda: False) is None
    assert 1 == len(hooks.receivers.sent)


async def test_outage_before_a_try_costs_nothing(hooks: HookWorld) -> None:
    """Nothing was sent, and nothing is written."""
    row = delivery((await hooks.subscribe()).id)
    await hooks.book.add(row)
    hooks.broker.set_connected(connected=False)
    with pytest.raises(VitascopeError):
        await hooks.courier.carry(row.place, lambda: False)
    hooks.broker.set_connected(connected=True)
    assert (row, []) == (await hooks.load(row), hooks.receivers.sent)


async def test_outage_after_a_try_does_not_send_it_again(hooks: HookWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """The outcome is kept until it can be written down."""
    monkeypatch.setattr("vitascope.publish.webhooks.courier.SAVE_FIRST_S", 0.0)
    row = delivery((await hooks.subscribe()).id)
    await hooks.book.add(row)
    tries = 3

    async def lose_bus() -> int:
        hooks.broker.set_connected(connected=False)
        return 200

    replace = hooks.book.replace

    async def come_back(*args: Any) -> Any:
        nonlocal tries
        tries -= 1
        hooks.broker.set_connected(connected=tries <= 0)
        return await replace(*args)

    hooks.receivers.behaviours[URL] = lose_bus
    hooks.book.replace = come_back  # type: ignore[method-assign]
    await hooks.courier.carry(row.place, lambda: False)
    assert (DeliveryState.DELIVERED, 1, 0) == ((await hooks.load(row)).state, len(hooks.receivers.sent), tries)
