"""Tenants and keys for tests, made through the door as an administrator makes them."""

from typing import Any

import httpx

ADMIN_KEY = "the key in the settings"
ADMIN = {"Authorization": f"Bearer {ADMIN_KEY}"}

__all__ = ["ADMIN", "ADMIN_KEY", "bearer", "make_key", "make_tenant"]


def bearer(key: str) -> dict[str, str]:
    """The header that carries a key."""
    return {"Authorization": f"Bearer {key}"}


async def make_tenant(client: httpx.AsyncClient, name: str, **limits: Any) -> str:
    """A new tenant, and a key of it for jobs and webhooks."""
    response = await client.post("/v1/tenants", json={"name": name, **limits}, headers=ADMIN)
    assert response.status_code == 201, response.text
    return await make_key(client, name, "jobs:read", "jobs:write", "webhooks")


async def make_key(client: httpx.AsyncClient, tenant: str, *scopes: str, **body: Any) -> str:
    """A key of a tenant."""
    path = f"/v1/tenants/{tenant}/keys"
    response = await client.post(path, json={"scopes": list(scopes), **body}, headers=ADMIN)
    assert response.status_code == 201, response.text
    key: str = response.json()["key"]
    return key
