"""A door without keys: open to this machine, shut to others and to the web pages in its browsers."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr, ValidationError

from doors import JOBS, PROMPT, World, open_door, read_error
from vitascope.ingress.reach import check_reach, is_loopback
from vitascope.runtime.settings import IngressSettings, JwtSettings

KEY = SecretStr("k")
JWT = JwtSettings(issuer="https://id.example", audience="vitascope", jwks_file=Path("keys.json"))


def test_an_empty_key_is_none() -> None:
    """A variable that is named and left empty stops the process: every caller would have that key."""
    with pytest.raises(ValidationError, match="api_key"):
        IngressSettings(host="0.0.0.0", api_key=SecretStr(""))


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST", "127.0.0.1", "127.9.9.9", "::1"])
def test_loopback(host: str) -> None:
    """Every way to name it."""
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host", ["", "0.0.0.0", "::", "10.0.0.1", "::ffff:10.0.0.1", "example.com", "localhost.example"]
)
def test_no_loopback(host: str) -> None:
    """All addresses, others' addresses, and names that only look like it."""
    assert not is_loopback(host)


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"host": "127.0.0.1"}, id="loopback"),
        pytest.param({"host": "0.0.0.0", "api_key": KEY}, id="key"),
        pytest.param({"host": "0.0.0.0", "jwt": JWT}, id="jwt"),
        pytest.param({"host": "0.0.0.0", "api_key": KEY, "cors_origins": ("*",)}, id="every-page-with-a-key"),
        pytest.param({"cors_origins": ("https://a.example",)}, id="one-page"),
    ],
)
def test_a_door_may_open(settings: dict[str, Any]) -> None:
    """With keys anywhere, without on loopback."""
    check_reach(IngressSettings(**settings))


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        pytest.param({"host": "0.0.0.0"}, ["HOST", "API_KEY", "JWT__ISSUER"], id="all-addresses"),
        pytest.param({"host": "::"}, ["HOST", "API_KEY"], id="all-addresses-6"),
        pytest.param({"host": "gpu-box"}, ["HOST", "API_KEY"], id="name"),
        pytest.param({"cors_origins": ("*",)}, ["CORS_ORIGINS", "API_KEY"], id="every-page"),
    ],
)
def test_a_door_must_not_open(settings: dict[str, Any], names: list[str]) -> None:
    """The refusal names the settings that would help."""
    with pytest.raises(ValueError, match="VITASCOPE_INGRESS__") as caught:
        check_reach(IngressSettings(**settings))
    assert [name for name in names if f"VITASCOPE_INGRESS__{name}" in str(caught.value)] == names


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8765", "[::1]:8765"])
async def test_this_machine_gets_in(client: httpx.AsyncClient, host: str) -> None:
    """Under any of its loopback addresses; a page that the service itself would serve may ask, too."""
    for headers in ({}, {"Origin": f"http://{host}"}):
        response = await client.get("/v1/models", headers={"Host": host} | headers)
        assert 200 == response.status_code


@pytest.mark.parametrize("host", ["evil.example:8765", "door", "", "127.0.0.1.evil.example", "[::1"])
async def test_a_name_made_to_stand_for_loopback_gets_nothing(
    client: httpx.AsyncClient, world: World, host: str
) -> None:
    """DNS rebinding: the browser sends the page's own name."""
    response = await client.post(JOBS, json=PROMPT, headers={"Host": host})
    assert "Host" == read_error(response, 403, "forbidden")["param"]
    assert 0 == await world.count_jobs()


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost:3000", "http://localhost.evil"])
async def test_a_foreign_page_gets_nothing(client: httpx.AsyncClient, world: World, origin: str) -> None:
    """A form or script of another page: browsers name where it comes from."""
    response = await client.post(JOBS, json=PROMPT, headers={"Origin": origin})
    assert "Origin" == read_error(response, 403, "forbidden")["param"]
    assert 0 == await world.count_jobs()


async def test_a_named_page_gets_in(world: World) -> None:
    """By setting."""
    async with open_door(world.make_app(cors_origins=("http://localhost:3000",))) as client:
        response = await client.get("/v1/models", headers={"Origin": "http://localhost:3000"})
        assert 200 == response.status_code
        assert "http://localhost:3000" == response.headers["access-control-allow-origin"]


async def test_with_a_key_names_do_not_matter(world: World) -> None:
    """A page does not know the key."""
    async with open_door(world.make_app(api_key="s3cret")) as client:
        headers = {"Host": "api.example", "Origin": "https://a.example", "Authorization": "Bearer s3cret"}
        assert 200 == (await client.get("/v1/models", headers=headers)).status_code
