"""The API key: asked for everywhere under /v1, and nowhere else."""

import httpx
import pytest

from doors import JOBS, PROMPT, World, open_door, read_error

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
