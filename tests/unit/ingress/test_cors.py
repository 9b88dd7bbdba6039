"""Cross-origin requests: allowed for the pages that the settings name, for no others, and never with cookies."""

import httpx
import pytest

from doors import JOBS, World, open_door

PAGE, OTHER = "https://studio.example", "https://evil.example"
SETTINGS = {"api_key": "s3cret", "cors_origins": (PAGE,)}


def ask_first(origin: str, method: str = "POST", headers: str = "authorization,idempotency-key") -> dict[str, str]:
    """What a browser sends before the request itself."""
    return {"Origin": origin, "Access-Control-Request-Method": method, "Access-Control-Request-Headers": headers}


async def test_a_named_page_may_ask(world: World) -> None:
    """The question before the request needs no key; the answer allows the headers that the API has."""
    async with open_door(world.make_app(**SETTINGS)) as client:
        response = await client.options(JOBS, headers=ask_first(PAGE))
    assert 200 == response.status_code
    assert PAGE == response.headers["access-control-allow-origin"]
    assert "access-control-allow-credentials" not in response.headers


@pytest.mark.parametrize("status", [200, 401])
async def test_a_named_page_may_read_every_answer(world: World, status: int) -> None:
    """Errors as well, and the headers that clients need."""
    headers = {"Origin": PAGE} | ({"Authorization": "Bearer s3cret"} if status == 200 else {})
    async with open_door(world.make_app(**SETTINGS)) as client:
        response = await client.get(JOBS, headers=headers)
    assert status == response.status_code
    assert PAGE == response.headers["access-control-allow-origin"]
    assert "Retry-After" in response.headers["access-control-expose-headers"]


@pytest.mark.parametrize("origin", [OTHER, "null", "https://studio.example.evil", "http://studio.example"])
async def test_others_may_not(world: World, origin: str) -> None:
    """Their browsers are told nothing that would let them read."""
    async with open_door(world.make_app(**SETTINGS)) as client:
        answers = [
            await client.options(JOBS, headers=ask_first(origin)),
            await client.get(JOBS, headers={"Origin": origin, "Authorization": "Bearer s3cret"}),
        ]
    assert not [answer for answer in answers if "access-control-allow-origin" in answer.headers]


async def test_by_default_nobody_may(client: httpx.AsyncClient) -> None:
    """There is no answer to the question at all."""
    response = await client.options(JOBS, headers=ask_first(PAGE))
    assert "access-control-allow-origin" not in response.headers
