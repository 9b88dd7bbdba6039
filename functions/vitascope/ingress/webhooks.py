"""`/v1/webhooks`: who is told of a tenant's jobs; `/v1/webhooks/callback`: what signs the callbacks of single jobs."""

import secrets
from datetime import datetime

import structlog
from fastapi import APIRouter, Request, Response

from vitascope.contracts.tenants import Tenant
from vitascope.contracts.webhooks import (
    CALLBACK,
    SECRET_BYTES,
    SigningSecret,
    Subscription,
    change_subscription,
    find_subscription,
    list_valid_secrets,
    make_secret,
    make_webhook_id,
    put_subscription,
    remove_subscription,
    rotate_secrets,
)
from vitascope.ingress.body import read_model
from vitascope.ingress.caller import Caller, GivenCaller
from vitascope.ingress.door import Door, GivenDoor
from vitascope.ingress.errors import raise_not_found
from vitascope.ingress.openapi import describe_errors
from vitascope.ingress.tenant_views import describe_body
from vitascope.ingress.webhook_views import (
    FreshWebhookView,
    SecretView,
    WebhookBody,
    WebhookListView,
    WebhookPatch,
    WebhookView,
    present_webhook,
)

_SWITCHED_OFF = "It was switched off."

router = APIRouter()
log = structlog.get_logger(__name__)


@router.post(
    "/v1/webhooks",
    status_code=201,
    operation_id="createWebhook",
    summary="Add a webhook",
    openapi_extra=describe_body(WebhookBody),
    responses=describe_errors(400, 403, 413, 415),
)
async def create_webhook(
    request: Request, response: Response, door: GivenDoor, caller: GivenCaller
) -> FreshWebhookView:
    """Add an address that is told of the caller's jobs. Its secret is in this answer and never shown again."""
    body = await read_model(request, door.deps.settings.max_body_bytes, WebhookBody)
    await door.deps.addresses.check_url(body.url)
    now = door.now
    fresh = _draw_secret(now)
    row = Subscription(
        id=make_webhook_id(now),
        url=body.url,
        description=body.description,
        events=tuple(dict.fromkeys(body.events)),
        secrets=(fresh,),
        created=now,
    )
    await door.deps.tenants.change(caller.tenant, lambda tenant: _put(tenant, row))
    log.info("webhook created", tenant=caller.tenant, webhook=row.id)
    response.headers["location"] = f"/v1/webhooks/{row.id}"
    return FreshWebhookView(**present_webhook(row, 1).model_dump(), secret=fresh.secret)


@router.get("/v1/webhooks", operation_id="listWebhooks", summary="Webhooks", responses=describe_errors(403))
async def list_webhooks(door: GivenDoor, caller: GivenCaller) -> WebhookListView:
    """The caller's webhooks, the oldest first."""
    tenant = await door.deps.tenants.get(caller.tenant)
    rows = tenant.webhooks.subscriptions if tenant is not None else ()
    return WebhookListView(data=[_present(row, door.now) for row in rows])


@router.get(
    "/v1/webhooks/callback/secret",
    operation_id="getCallbackSecret",
    summary="What signs callbacks",
    responses=describe_errors(403),
)
async def get_callback_secret(door: GivenDoor, caller: GivenCaller) -> SecretView:
    """The secret that signs what is posted to a `callback_url`: one for all jobs of the caller."""
    fresh = _draw_secret(door.now)
    tenant = await door.deps.tenants.change(
        caller.tenant, lambda held: held if _has_callback(held) else _rotate_callback(held, fresh)
    )
    return _present_secrets(tenant.webhooks.callback_secrets)


@router.get(
    "/v1/webhooks/{webhook}", operation_id="getWebhook", summary="A webhook", responses=describe_errors(403, 404)
)
async def get_webhook(webhook: str, door: GivenDoor, caller: GivenCaller) -> WebhookView:
    """A webhook as it is now."""
    return _present(await load_webhook(door, caller, webhook), door.now)


@router.patch(
    "/v1/webhooks/{webhook}",
    operation_id="changeWebhook",
    summary="Change a webhook",
    openapi_extra=describe_body(WebhookPatch),
    responses=describe_errors(400, 403, 404, 413, 415),
)
async def change_webhook(webhook: str, request: Request, door: GivenDoor, caller: GivenCaller) -> WebhookView:
    """Change what is named in the body. Enabling it begins its health anew."""
    body = await read_model(request, door.deps.settings.max_body_bytes, WebhookPatch)
    if "url" in body.model_fields_set:
        await door.deps.addresses.check_url(body.url)
    changes = _read_changes(body)
    tenant = await door.deps.tenants.change(caller.tenant, lambda held: _change(held, webhook, changes))
    log.info("webhook changed", tenant=caller.tenant, webhook=webhook, fields=sorted(body.model_fields_set))
    return _present(_find(tenant, webhook), door.now)


@router.delete(
    "/v1/webhooks/{webhook}",
    status_code=204,
    operation_id="deleteWebhook",
    summary="Delete a webhook",
    responses=describe_errors(403, 404),
)
async def delete_webhook(webhook: str, door: GivenDoor, caller: GivenCaller) -> Response:
    """Delete a webhook: what is pending for it is sent no more."""

    def remove(tenant: Tenant) -> Tenant:
        _find(tenant, webhook)
        return tenant.model_copy(update={"webhooks": remove_subscription(tenant.webhooks, webhook)})

    await door.deps.tenants.change(caller.tenant, remove)
    log.info("webhook deleted", tenant=caller.tenant, webhook=webhook)
    return Response(status_code=204)


@router.post(
    "/v1/webhooks/{webhook}/rotate",
    status_code=201,
    operation_id="rotateWebhookSecret",
    summary="Replace a secret",
    responses=describe_errors(403, 404),
)
async def rotate_webhook(webhook: str, door: GivenDoor, caller: GivenCaller) -> SecretView:
    """Make a new secret; for a day the old one signs beside it. `callback` stands for callbacks."""
    fresh = _draw_secret(door.now)

    def rotate(tenant: Tenant) -> Tenant:
        if webhook == CALLBACK:
            return _rotate_callback(tenant, fresh)
        return _change(tenant, webhook, {"secrets": rotate_secrets(_find(tenant, webhook).secrets, fresh)})

    tenant = await door.deps.tenants.change(caller.tenant, rotate)
    log.info("webhook secret rotated", tenant=caller.tenant, webhook=webhook)
    return _present_secrets(tenant.webhooks.callback_secrets if webhook == CALLBACK else _find(tenant, webhook).secrets)


async def load_webhook(door: Door, caller: Caller, webhook: str) -> Subscription:
    """The caller's webhook.

    Raises:
        VitascopeError: `not_found`, whether there is none or it is somebody else's.
    """
    tenant = await door.deps.tenants.get(caller.tenant)
    row = find_subscription(tenant.webhooks, webhook) if tenant is not None else None
    if row is None:
        raise_not_found("There is no such webhook.")
    return row


def _find(tenant: Tenant, webhook: str) -> Subscription:
    row = find_subscription(tenant.webhooks, webhook)
    if row is None:
        raise_not_found("There is no such webhook.")
    return row


def _put(tenant: Tenant, row: Subscription) -> Tenant:
    return tenant.model_copy(update={"webhooks": put_subscription(tenant.webhooks, row)})


def _change(tenant: Tenant, webhook: str, changes: dict[str, object]) -> Tenant:
    _find(tenant, webhook)
    return tenant.model_copy(update={"webhooks": change_subscription(tenant.webhooks, webhook, **changes)})


def _read_changes(body: WebhookPatch) -> dict[str, object]:
    named = body.model_fields_set
    changes: dict[str, object] = {name: getattr(body, name) for name in ("url", "description") if name in named}
    if "events" in named:
        changes["events"] = tuple(dict.fromkeys(body.events))
    if "enabled" in named:
        changes["disabled"] = None if body.enabled else _SWITCHED_OFF
    if "url" in named or changes.get("disabled", _SWITCHED_OFF) is None:
        changes["failing_since"] = None
    return changes


def _has_callback(tenant: Tenant) -> bool:
    return bool(tenant.webhooks.callback_secrets)


def _rotate_callback(tenant: Tenant, fresh: SigningSecret) -> Tenant:
    rows = rotate_secrets(tenant.webhooks.callback_secrets, fresh)
    return tenant.model_copy(update={"webhooks": tenant.webhooks.model_copy(update={"callback_secrets": rows})})


def _draw_secret(now: datetime) -> SigningSecret:
    return make_secret(secrets.token_bytes(SECRET_BYTES), now)


def _present(row: Subscription, now: datetime) -> WebhookView:
    return present_webhook(row, len(list_valid_secrets(row.secrets, now)))


def _present_secrets(rows: tuple[SigningSecret, ...]) -> SecretView:
    ends = [row.expires for row in rows[1:] if row.expires is not None]
    return SecretView(secret=rows[0].secret, old_secrets_sign_until=max(ends, default=None))
