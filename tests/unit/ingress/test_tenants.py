"""Tenants and keys through the door: made, shown without their secrets, changed, rotated, revoked."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import httpx
import pytest
import pytest_asyncio

from doors import JOBS, PROMPT, World, open_door, read_error
from tenancy import ADMIN, ADMIN_KEY, bearer, make_key, make_tenant
from vitascope.contracts.objects import tenant_key

TENANTS = "/v1/tenants"


@pytest_asyncio.fixture
async def client(world: World) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a door with a key in its settings."""
    async with open_door(world.make_app(api_key=ADMIN_KEY)) as opened:
        yield opened


async def get(client: httpx.AsyncClient, path: str, key: str) -> httpx.Response:
    return await client.get(path, headers=bearer(key))


async def test_a_tenant_is_made_and_shown(client: httpx.AsyncClient) -> None:
    """With the limits that were asked for, and none where nothing was."""
    body = {"name": "acme", "weight": 2.5, "tiers": ["batch"], "quotas": {"live_jobs": 3}}
    response = await client.post(TENANTS, json=body, headers=ADMIN)
    assert 201 == response.status_code
    assert f"{TENANTS}/acme" == response.headers["location"]
    made = response.json()
    assert made == (await client.get(f"{TENANTS}/acme", headers=ADMIN)).json()
    assert [made] == (await client.get(TENANTS, headers=ADMIN)).json()["data"]
    assert ("acme", 2.5, ["batch"], None, False) == tuple(
        made[name] for name in ("name", "weight", "tiers", "rate", "disabled")
    )
    assert {"gpu_seconds_per_day": None, "live_jobs": 3, "queued_jobs": None} == made["quotas"]


async def test_a_key_is_shown_once(client: httpx.AsyncClient, world: World) -> None:
    """It works; neither an answer nor the bucket nor the copy has it afterwards."""
    await client.post(TENANTS, json={"name": "acme"}, headers=ADMIN)
    path = f"{TENANTS}/acme/keys"
    made = (await client.post(path, json={"label": "laptop"}, headers=ADMIN)).json()
    key = made.pop("key")
    assert key.startswith(made["id"])
    assert ["jobs:read", "jobs:write"] == made["scopes"]
    assert 200 == (await get(client, JOBS, key)).status_code
    assert [made] == (await client.get(path, headers=ADMIN)).json()["data"]
    secret = key.removeprefix(f"{made['id']}_")
    shown = (await client.get(f"{TENANTS}/acme", headers=ADMIN)).text
    stored = await world.broker.tenants.get("acme")
    assert stored is not None
    copy = world.store.objects[tenant_key("acme")]
    assert not [where for where in (shown, stored.tenant.model_dump_json(), copy.decode()) if secret in where]


async def test_a_patch_changes_what_it_names(client: httpx.AsyncClient) -> None:
    """Null takes a limit away; what is not named stays."""
    await make_tenant(client, "acme", quotas={"live_jobs": 3, "queued_jobs": 2}, rate={"per_second": 5, "burst": 9})
    body = {"quotas": {"live_jobs": None}, "weight": 2}
    changed = (await client.patch(f"{TENANTS}/acme", json=body, headers=ADMIN)).json()
    assert {"gpu_seconds_per_day": None, "live_jobs": None, "queued_jobs": 2} == changed["quotas"]
    assert {"per_second": 5.0, "burst": 9} == changed["rate"]
    assert 2.0 == changed["weight"]
    assert 1 == len(changed["keys"])
    assert (await client.patch(f"{TENANTS}/acme", json={"rate": None}, headers=ADMIN)).json()["rate"] is None


async def test_a_rotated_key_overlaps(client: httpx.AsyncClient, world: World) -> None:
    """Old and new both open, until the old one's time is over; scopes and label are the same."""
    await make_tenant(client, "acme")
    old = await make_key(client, "acme", "jobs:read", label="ci")
    path = f"{TENANTS}/acme/keys/{old[:12]}/rotate"
    fresh = (await client.post(path, json={"overlap_seconds": 60}, headers=ADMIN)).json()
    assert (["jobs:read"], "ci") == (fresh["scopes"], fresh["label"])
    assert [200, 200] == [(await get(client, JOBS, key)).status_code for key in (old, fresh["key"])]
    world.time.advance(61)
    read_error(await get(client, JOBS, old), 401, "unauthenticated")
    assert 200 == (await get(client, JOBS, fresh["key"])).status_code


async def test_a_revoked_key_opens_nothing(client: httpx.AsyncClient) -> None:
    """From the answer on; revoking it again finds nothing."""
    key = await make_tenant(client, "acme")
    path = f"{TENANTS}/acme/keys/{key[:12]}"
    assert 204 == (await client.delete(path, headers=ADMIN)).status_code
    read_error(await get(client, JOBS, key), 401, "unauthenticated")
    read_error(await client.delete(path, headers=ADMIN), 404, "not_found")


async def test_a_key_ends_when_it_was_to(client: httpx.AsyncClient, world: World) -> None:
    """Its last moment is before `expires_at`."""
    await make_tenant(client, "acme")
    end = world.time.now() + timedelta(hours=1)
    key = await make_key(client, "acme", "jobs:read", expires_at=end.isoformat())
    world.time.advance(3599)
    assert 200 == (await get(client, JOBS, key)).status_code
    world.time.advance(1)
    read_error(await get(client, JOBS, key), 401, "unauthenticated")


async def test_a_disabled_tenant_is_refused_until_it_is_enabled(client: httpx.AsyncClient) -> None:
    """All its keys; the key in the settings opens even for a disabled default tenant."""
    key = await make_tenant(client, "acme")
    for name in ("acme", "default"):
        response = await client.patch(f"{TENANTS}/{name}", json={"disabled": True}, headers=ADMIN)
        assert 200 == response.status_code
    read_error(await get(client, JOBS, key), 403, "forbidden")
    assert 200 == (await client.patch(f"{TENANTS}/acme", json={"disabled": False}, headers=ADMIN)).status_code
    assert 200 == (await get(client, JOBS, key)).status_code


async def test_ones_own_tenant_is_shown_with_its_use(client: httpx.AsyncClient) -> None:
    """What the key allows, and what the tenant has under way."""
    key = await make_tenant(client, "acme", quotas={"live_jobs": 3})
    job = (await client.post(JOBS, json=PROMPT, headers=bearer(key))).json()
    own = (await get(client, "/v1/tenant", key)).json()
    assert ("acme", key[:12], ["jobs:read", "jobs:write", "webhooks"]) == (own["name"], own["key"], own["scopes"])
    assert {
        "live_jobs": 1,
        "queued_jobs": 1,
        "live_gpu_seconds": job["estimated_gpu_seconds"],
        "spent_gpu_seconds": 0.0,
    } == own["usage"]
    default = (await get(client, "/v1/tenant", ADMIN_KEY)).json()
    assert ("default", None) == (default["name"], default["key"])


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        pytest.param({}, "invalid_request", "name", id="no-name"),
        pytest.param({"name": "../x"}, "invalid_request", "name", id="path"),
        pytest.param({"name": "A"}, "invalid_request", "name", id="upper-case"),
        pytest.param({"name": "a" * 41}, "invalid_request", "name", id="long"),
        pytest.param({"name": "a.b"}, "invalid_request", "name", id="two-tokens"),
        pytest.param({"name": "acme\n"}, "invalid_request", "name", id="line-feed"),
        pytest.param({"name": "a", "colour": 1}, "unknown_field", "colour", id="unknown"),
        pytest.param({"name": "a", "weight": 0}, "invalid_request", "weight", id="weight"),
        pytest.param({"name": "a", "quotas": {"x": 1}}, "unknown_field", "quotas.x", id="unknown-quota"),
        pytest.param({"name": "a", "quotas": {"live_jobs": -1}}, "invalid_request", "quotas.live_jobs", id="quota"),
        pytest.param({"name": "a", "rate": {"per_second": 1}}, "invalid_request", "rate.burst", id="rate"),
        pytest.param({"name": "a", "tiers": ["fast"]}, "invalid_request", "tiers.0", id="tier"),
    ],
)
async def test_what_is_wrong_is_named(client: httpx.AsyncClient, body: dict[str, Any], code: str, param: str) -> None:
    """In the one error shape; no tenant is made."""
    response = await client.post(TENANTS, json=body, headers=ADMIN)
    assert param == read_error(response, 400, code)["param"]
    assert [] == (await client.get(TENANTS, headers=ADMIN)).json()["data"]


@pytest.mark.parametrize("name", ["acme", "default"])
async def test_a_name_is_given_once(client: httpx.AsyncClient, name: str) -> None:
    """The default tenant has its name from the start."""
    await make_tenant(client, "acme")
    response = await client.post(TENANTS, json={"name": name}, headers=ADMIN)
    assert "name" == read_error(response, 409, "already_exists")["param"]


@pytest.mark.parametrize("name", ["nobody", "No", "a.b", "%2e%2e", "a%0a"])
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", ""),
        ("PATCH", ""),
        ("GET", "/keys"),
        ("POST", "/keys"),
        ("POST", "/keys/vsk_aaaaaaaa/rotate"),
        ("DELETE", "/keys/vsk_aaaaaaaa"),
    ],
)
async def test_who_is_not_there_is_not_found(client: httpx.AsyncClient, method: str, path: str, name: str) -> None:
    """Whatever the name is; nothing is made."""
    body = {} if method in {"POST", "PATCH"} else None
    response = await client.request(method, f"{TENANTS}/{name}{path}", json=body, headers=ADMIN)
    read_error(response, 404, "not_found")
    assert [] == (await client.get(TENANTS, headers=ADMIN)).json()["data"]


async def test_logs_name_keys_by_their_visible_part(client: httpx.AsyncClient, logs: list[Any]) -> None:
    """No secret is written down."""
    key = await make_tenant(client, "acme")
    assert key[:12] in repr(logs)
    assert key[13:] not in repr(logs)


async def test_a_tenants_files_may_go_sooner(client: httpx.AsyncClient, world: World) -> None:
    """From the next job on: one that was accepted before keeps its promise."""
    key = await make_tenant(client, "acme")
    jobs = []
    for days in (None, 0.5):
        await client.patch(f"{TENANTS}/acme", json={"retention_days": days}, headers=ADMIN)
        jobs.append((await client.post(JOBS, json=PROMPT, headers=bearer(key))).json()["id"])
        await world.finish(jobs[-1])
    ends = [(await get(client, f"{JOBS}/{job}", key)).json()["expires_at"] for job in jobs]
    assert ["2026-01-08T00:00:00Z", "2026-01-01T12:00:00Z"] == ends
