"""The prompt screen at the door: before there is a job."""

from collections.abc import Sequence

import httpx
import pytest

from doors import JOBS, KEY, PROMPT, World, open_door, read_error, submit
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.screen import Finding

FRUIT = Finding("rules", "fruit", "apples-1")


class Picky:
    """Refuses what has the word; or is away."""

    def __init__(self) -> None:
        self.asked = 0
        self.is_away = False
        self.word = "apple"

    async def check(self, texts: Sequence[str]) -> Finding | None:
        self.asked += 1
        if self.is_away:
            raise VitascopeError(FailureCode.SCREEN_UNAVAILABLE, "The hook does not answer.")
        return FRUIT if any(self.word in text for text in texts) else None


@pytest.fixture
def screen() -> Picky:
    return Picky()


@pytest.fixture
def app(world: World, screen: Picky) -> object:
    return world.make_app(prompt_screen=screen)


@pytest.fixture
def twin(world: World, screen: Picky) -> object:
    return world.make_app(prompt_screen=screen)


async def test_refused_prompt_leaves_nothing(client: httpx.AsyncClient, world: World) -> None:
    """400 with its own code, the category and the field; no job, no copy, and the key is free for another body."""
    headers = {"Idempotency-Key": KEY}
    response = await client.post(JOBS, json={"prompt": "an apple"}, headers=headers)
    error = read_error(response, 400, "prompt_refused")
    assert ("prompt", "invalid_request_error") == (error["param"], error["type"])
    assert "fruit" in error["message"]
    assert "apples-1" not in response.text
    assert 0 == await world.count_jobs()
    assert {} == world.store.objects
    await submit(client, key=KEY, prompt="a pear")


async def test_screen_that_is_away_keeps_all_out(client: httpx.AsyncClient, world: World, screen: Picky) -> None:
    """503 with Retry-After, no job; the same request passes once it is back."""
    screen.is_away = True
    response = await client.post(JOBS, json=PROMPT, headers={"Idempotency-Key": KEY})
    read_error(response, 503, "screen_unavailable")
    assert int(response.headers["retry-after"]) > 0
    assert 0 == await world.count_jobs()
    screen.is_away = False
    await submit(client, key=KEY)


async def test_what_was_accepted_is_not_screened_again(client: httpx.AsyncClient, screen: Picky) -> None:
    """A repeated request is answered with its job, whatever the screen has become since."""
    first = await submit(client, key=KEY)
    screen.word = "circle"
    assert first["id"] == (await submit(client, key=KEY))["id"]
    assert 1 == screen.asked


async def test_wrong_request_is_not_shown(client: httpx.AsyncClient, screen: Picky) -> None:
    """A hook is asked only about what could become a job."""
    read_error(await client.post(JOBS, json={"prompt": "an apple", "steps": 0}), 400, "invalid_request")
    assert 0 == screen.asked


async def test_negative_prompt_may_have_the_word(client: httpx.AsyncClient) -> None:
    """It says what must not be seen."""
    await submit(client, prompt="a pear", negative_prompt="apple")


async def test_without_a_screen_all_prompts_pass(world: World) -> None:
    """It is on by setting only."""
    async with open_door(world.make_app()) as client:
        await submit(client, prompt="an apple")
