"""`/v1/tenants`: tenants, their limits and keys, for who has the scope `admin`; `/v1/tenant`: one's own."""

import secrets
from datetime import datetime, timedelta

import structlog
from fastapi import APIRouter, Request, Response

from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.ids import is_token
from vitascope.contracts.keys import (
    SECRET_BYTES,
    VISIBLE_BYTES,
    ApiKey,
    Scope,
    compose_key,
    compute_key_digest,
    read_key_id,
)
from vitascope.contracts.tenants import Tenant, add_key, find_key, revoke_key, rotate_key
from vitascope.ingress.body import read_model
from vitascope.ingress.caller import GivenCaller
from vitascope.ingress.door import Door, GivenDoor
from vitascope.ingress.openapi import describe_errors
from vitascope.ingress.tenant_views import (
    FreshKeyView,
    KeyBody,
    KeyListView,
    OwnTenantView,
    RotateBody,
    TenantBody,
    TenantListView,
    TenantPatch,
    TenantView,
    apply_limits,
    describe_body,
    present_key,
    present_tenant,
)
from vitascope.runtime.tenants import Change

_NO_SUCH_TENANT = "There is no such tenant."

router = APIRouter()
log = structlog.get_logger(__name__)


@router.get("/v1/tenant", operation_id="getOwnTenant", summary="Whom the key stands for", responses=describe_errors())
async def get_own_tenant(door: GivenDoor, caller: GivenCaller) -> OwnTenantView:
    """The tenant of the request's key, what it may use and what it uses."""
    tenant = await door.deps.tenants.get(caller.tenant)
    if tenant is None:  # a tenant that this replica has seen is never removed
        raise VitascopeError(FailureCode.NOT_FOUND, _NO_SUCH_TENANT)
    view = _present(door, tenant).model_dump(exclude={"object", "keys"})
    return OwnTenantView(**view, scopes=sorted(caller.scopes), key=caller.key)


@router.get("/v1/tenants", operation_id="listTenants", summary="Tenants", responses=describe_errors(403))
async def list_tenants(door: GivenDoor) -> TenantListView:
    """All tenants by name; `default` is among them once something of it was changed."""
    await door.tenants.catch_up()
    return TenantListView(data=[_present(door, tenant) for tenant in door.tenants.list_all()])


@router.post(
    "/v1/tenants",
    status_code=201,
    operation_id="createTenant",
    summary="Add a tenant",
    openapi_extra=describe_body(TenantBody),
    responses=describe_errors(400, 403, 409, 413, 415),
)
async def create_tenant(request: Request, response: Response, door: GivenDoor) -> TenantView:
    """Add a tenant. It has no key yet, and cannot be removed: its name is part of its jobs."""
    body = await read_model(request, door.deps.settings.max_body_bytes, TenantBody)
    tenant = apply_limits(Tenant(name=body.name, created=door.now), body)
    created = await door.deps.tenants.create(tenant)
    await door.tenants.catch_up()
    log.info("tenant created", tenant=created.name)
    response.headers["location"] = f"/v1/tenants/{created.name}"
    return _present(door, created)


@router.get("/v1/tenants/{tenant}", operation_id="getTenant", summary="A tenant", responses=describe_errors(403, 404))
async def get_tenant(tenant: str, door: GivenDoor) -> TenantView:
    """A tenant, its limits, its keys and what it uses."""
    return _present(door, await _load(door, tenant))


@router.patch(
    "/v1/tenants/{tenant}",
    operation_id="changeTenant",
    summary="Change a tenant",
    openapi_extra=describe_body(TenantPatch),
    responses=describe_errors(400, 403, 404, 413, 415),
)
async def change_tenant(tenant: str, request: Request, door: GivenDoor) -> TenantView:
    """Change what is named in the body, and leave the rest. A limit of null is none."""
    body = await read_model(request, door.deps.settings.max_body_bytes, TenantPatch)
    changed = await _change(door, tenant, lambda current: apply_limits(current, body))
    log.info("tenant changed", tenant=tenant, fields=sorted(body.model_fields_set))
    return changed


@router.get("/v1/tenants/{tenant}/keys", operation_id="listKeys", summary="Keys", responses=describe_errors(403, 404))
async def list_keys(tenant: str, door: GivenDoor) -> KeyListView:
    """The keys of a tenant: what may be shown of them."""
    return KeyListView(data=[present_key(key) for key in (await _load(door, tenant)).keys])


@router.post(
    "/v1/tenants/{tenant}/keys",
    status_code=201,
    operation_id="createKey",
    summary="Make a key",
    openapi_extra=describe_body(KeyBody),
    responses=describe_errors(400, 403, 404, 413, 415),
)
async def create_key(tenant: str, request: Request, response: Response, door: GivenDoor) -> FreshKeyView:
    """Make a key. It is shown in this answer and never again: only its digest is kept."""
    body = await read_model(request, door.deps.settings.max_body_bytes, KeyBody)
    text, key = _draw_key(body.scopes, body.label, created=door.now, expires=body.expires_at)
    await _change(door, tenant, lambda current: add_key(current, key))
    log.info("key created", tenant=tenant, key=key.id)
    response.headers["location"] = f"/v1/tenants/{tenant}/keys/{key.id}"
    return FreshKeyView(**present_key(key).model_dump(), key=text)


@router.post(
    "/v1/tenants/{tenant}/keys/{key}/rotate",
    status_code=201,
    operation_id="rotateKey",
    summary="Replace a key",
    openapi_extra=describe_body(RotateBody),
    responses=describe_errors(400, 403, 404, 413, 415),
)
async def replace_key(tenant: str, key: str, request: Request, door: GivenDoor) -> FreshKeyView:
    """Make a key with the same scopes and label; the old one stays valid for `overlap_seconds`."""
    body = await read_model(request, door.deps.settings.max_body_bytes, RotateBody)
    old, now = find_key(await _load(door, tenant), key), door.now
    text, fresh = _draw_key(old.scopes, old.label, created=now, expires=None)
    until = now + timedelta(seconds=body.overlap_seconds)
    await _change(door, tenant, lambda current: rotate_key(current, key, fresh, until=until))
    log.info("key rotated", tenant=tenant, key=key, fresh=fresh.id)
    return FreshKeyView(**present_key(fresh).model_dump(), key=text)


@router.delete(
    "/v1/tenants/{tenant}/keys/{key}",
    status_code=204,
    operation_id="revokeKey",
    summary="Revoke a key",
    responses=describe_errors(403, 404),
)
async def delete_key(tenant: str, key: str, door: GivenDoor) -> Response:
    """End a key. Other replicas follow within the time that a change takes to reach them."""
    await _change(door, tenant, lambda current: revoke_key(current, key))
    log.info("key revoked", tenant=tenant, key=key)
    return Response(status_code=204)


async def _load(door: Door, name: str) -> Tenant:
    tenant = await door.deps.tenants.get(name) if is_token(name) else None
    if tenant is None:
        raise VitascopeError(FailureCode.NOT_FOUND, _NO_SUCH_TENANT)
    return tenant


async def _change(door: Door, name: str, change: Change) -> TenantView:
    """Change a tenant; once this returns, the change holds at this replica."""
    if not is_token(name):
        raise VitascopeError(FailureCode.NOT_FOUND, _NO_SUCH_TENANT)
    changed = await door.deps.tenants.change(name, change)
    await door.tenants.catch_up()
    return _present(door, changed)


def _present(door: Door, tenant: Tenant) -> TenantView:
    return present_tenant(tenant, door.jobs.usage.measure(tenant.name, door.now))


def _draw_key(
    scopes: frozenset[Scope], label: str, *, created: datetime, expires: datetime | None
) -> tuple[str, ApiKey]:
    """A new key, and what is kept of it."""
    text = compose_key(secrets.token_bytes(VISIBLE_BYTES), secrets.token_bytes(SECRET_BYTES))
    return text, ApiKey(
        id=read_key_id(text), sha256=compute_key_digest(text), scopes=scopes, label=label, created=created,
        expires=expires,
    )  # fmt: skip
