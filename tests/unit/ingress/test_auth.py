"""The API key: asked for everywhere under /v1, and nowhere else."""

import httpx
import pytest

from doors import JOBS, PROMPT, World, open_door, read_error
from tenancy import ADMIN_KEY, bearer, make_key, make_tenant
from vitascope.contracts.keys import Scope
from vitascope.ingress.auth import compute_scope

ROUTES = [
    ("POST", JOBS),
    ("GET", JOBS),
    ("GET", f"{JOBS}/vj_01KDVDNA00W52FRFC30J36F36P"),
    ("POST", f"{JOBS}/vj_01KDVDNA00W52FRFC30J36F36P/cancel"),
    ("GET", f"{JOBS}/vj_01KDVDNA00W52FRFC30J36F36P/content"),
    ("HEAD", f"{JOBS}/vj_01KDVDNA00W52FRFC30J36F36P/content"),
    ("GET", f"{JOBS}/vj_01KDVDNA00W52FRFC30J36F36P/events"),
    ("GET", "/v1/models"),
    ("GET", "/v1/queue"),
    ("GET", "/v1/tenant"),
    ("GET", "/v1/tenants"),
    ("POST", "/v1/tenants/default/keys"),
]


@pytest.mark.parametrize(("method", "path"), ROUTES, ids=[f"{method}-{path[3:]}" for method, path in ROUTES])
async def test_every_route_asks_for_the_key(world: World, method: str, path: str) -> None:
    """401 with a challenge, before anything else is looked at; nothing is made."""
    async with open_door(world.make_app(api_key="s3cret")) as client:
        response = await client.request(method, path, json=PROMPT if method == "POST" else None)
    assert 401 == response.status_code
    assert 'Bearer realm="vitascope"' == response.headers["www-authenticate"]
    if method != "HEAD":
        assert "Authorization" == read_error(response, 401, "unauthenticated")["param"]
    assert 0 == await world.count_jobs()


@pytest.mark.parametrize(
    "header",
    [
        pytest.param(b"Bearer wrong", id="wrong"),
        pytest.param(b"Bearer s3cret ", id="longer"),
        pytest.param(b"Bearer ", id="empty"),
        pytest.param(b"Bearer", id="scheme-alone"),
        pytest.param(b"Basic s3cret", id="scheme"),
        pytest.param(b"s3cret", id="no-scheme"),
        pytest.param("Bearer s3crét".encode(), id="unicode"),
    ],
)
async def test_a_wrong_key_is_no_key(world: World, header: bytes) -> None:
    """Whatever is wrong with it."""
    async with open_door(world.make_app(api_key="s3cret")) as client:
        response = await client.get("/v1/models", headers=[(b"Authorization", header.strip() or header)])
        if header.strip() == b"Bearer s3cret":
            assert 200 == response.status_code  # HTTP drops blanks at the end of a header
        else:
            read_error(response, 401, "unauthenticated")


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
async def test_the_right_key_opens(world: World, scheme: str) -> None:
    """The scheme's letters do not matter, the key's do; a key may be any text."""
    async with open_door(world.make_app(api_key="s3crét")) as client:
        response = await client.get("/v1/models", headers=[(b"Authorization", f"{scheme} s3crét".encode())])
        assert 200 == response.status_code


@pytest.mark.parametrize("path", ["/healthz", "/metrics", "/openapi.json"])
async def test_probes_need_no_key(world: World, path: str) -> None:
    """They tell nothing about jobs of anybody."""
    async with open_door(world.make_app(api_key="s3cret")) as client:
        assert 200 == (await client.get(path)).status_code


async def test_without_a_key_all_is_open(client: httpx.AsyncClient) -> None:
    """The local run."""
    assert 200 == (await client.get("/v1/models")).status_code


@pytest.mark.parametrize("token", ["EMPTY", "sk-1234", "a.b.c"])
async def test_without_a_key_any_will_do(client: httpx.AsyncClient, token: str) -> None:
    """Clients that insist on a key send something; it says nothing."""
    assert "default" == (await client.get("/v1/tenant", headers=bearer(token))).json()["name"]


async def test_without_a_key_one_that_claims_to_be_ours_is_checked(client: httpx.AsyncClient) -> None:
    """A tenant's key stands for the tenant, and a wrong one does not stand for everybody."""
    await client.post("/v1/tenants", json={"name": "acme"})
    key = (await client.post("/v1/tenants/acme/keys", json={})).json()["key"]
    assert "acme" == (await client.get("/v1/tenant", headers=bearer(key))).json()["name"]
    wrong = key[:-1] + ("a" if key[-1] != "a" else "b")
    read_error(await client.get("/v1/tenant", headers=bearer(wrong)), 401, "unauthenticated")


SCOPES = [
    ("jobs:read", "GET", JOBS),
    ("jobs:read", "HEAD", f"{JOBS}/vj_01KDVDNA00W52FRFC30J36F36P/content"),
    ("jobs:read", "POST", f"{JOBS}/estimate"),
    ("jobs:write", "POST", JOBS),
    ("jobs:write", "DELETE", f"{JOBS}/vj_01KDVDNA00W52FRFC30J36F36P"),
    ("jobs:write", "POST", f"{JOBS}/vj_01KDVDNA00W52FRFC30J36F36P/cancel"),
    ("jobs:write", "POST", "/v1/videos"),
    ("jobs:read", "GET", "/v1/videos"),
    ("jobs:read", "GET", "/v1/models"),
    ("jobs:read", "GET", "/v1/tenant"),
    ("admin", "GET", "/v1/tenants"),
    ("admin", "POST", "/v1/tenants"),
    ("admin", "DELETE", "/v1/tenants/acme/keys/vsk_aaaaaaaa"),
    ("webhooks", "GET", "/v1/webhooks"),
    ("webhooks", "POST", "/v1/webhooks"),
    ("jobs:write", "POST", "/v1/webhooksome"),
    ("jobs:write", "PATCH", "/v1/anything-new"),
]


@pytest.mark.parametrize(
    ("scope", "method", "path"), SCOPES, ids=[f"{method}-{path[4:]}" for _, method, path in SCOPES]
)
def test_a_request_needs_a_scope(scope: str, method: str, path: str) -> None:
    """Reading and writing jobs, webhooks, and the tenants themselves; what is new belongs to the jobs."""
    assert Scope(scope) is compute_scope(method, path)


@pytest.mark.parametrize("lacking", list(Scope))
async def test_a_key_without_the_scope_is_told_so(world: World, lacking: Scope) -> None:
    """403 naming it, whether or not there is anything behind the address; nothing is made."""
    others = [scope.value for scope in Scope if scope is not lacking]
    routes = [("GET", JOBS), ("POST", JOBS), ("GET", "/v1/tenants"), ("POST", "/v1/tenants"), ("GET", "/v1/webhooks")]
    async with open_door(world.make_app(api_key=ADMIN_KEY)) as client:
        await make_tenant(client, "acme")
        key = await make_key(client, "acme", *others)
        for method, path in routes:
            if compute_scope(method, path) is not lacking:
                continue
            response = await client.request(method, path, json=PROMPT, headers=bearer(key))
            assert lacking.value in read_error(response, 403, "forbidden")["message"]
    assert 0 == await world.count_jobs()
