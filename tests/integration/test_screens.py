"""Screens with a real moderation service, through the client that is used for strangers' addresses."""

from collections.abc import Iterator

import pytest

from moderation import ModerationService, serving_moderation
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.runtime.settings import ScreenSettings
from vitascope.screen import Finding, Still
from vitascope.screen.build import open_output_screen, open_prompt_screen

LOOPBACK = ("127.0.0.0/8",)


@pytest.fixture
def service() -> Iterator[ModerationService]:
    with serving_moderation() as opened:
        yield opened


async def test_prompt_is_asked_about(service: ModerationService) -> None:
    """With the key; a clear no passes, a flag is a finding with its category."""
    settings = ScreenSettings(
        prompt_hook=True, hook_url=service.url, hook_key="secret", hook_model="m", hook_allow_networks=LOOPBACK
    )
    async with open_prompt_screen(settings) as screen:
        assert screen is not None
        assert await screen.check(["a red circle"]) is None
        assert Finding("hook", "violence", "flagged") == await screen.check(["an unmentionable"])
    assert [{"input": ["a red circle"], "model": "m"}, {"input": ["an unmentionable"], "model": "m"}] == service.asked
    assert ["Bearer secret"] * 2 == service.keys


async def test_stills_are_asked_about(service: ModerationService) -> None:
    """Every one of them, until one is flagged."""
    settings = ScreenSettings(still_hook=True, hook_url=service.url, hook_allow_networks=LOOPBACK)
    stills = [Still(frame, b"\xff\xd8picture") for frame in range(6)]
    async with open_output_screen(settings) as screen:
        assert screen is not None
        assert await screen.check(stills) is None
        assert 6 == service.pictures
        service.flags_pictures = True
        assert await screen.check(stills) is not None


async def test_private_hook_has_to_be_let_in(service: ModerationService) -> None:
    """By the screen's own setting: another network does not open this one, and nothing is sent."""
    settings = ScreenSettings(prompt_hook=True, hook_url=service.url, hook_allow_networks=("10.0.0.0/8",))
    async with open_prompt_screen(settings) as screen:
        assert screen is not None
        with pytest.raises(VitascopeError) as refused:
            await screen.check(["a red circle"])
    assert FailureCode.SCREEN_UNAVAILABLE is refused.value.code
    assert [] == service.asked


@pytest.mark.parametrize("status", [401, 429, 500, 503])
async def test_other_answers_let_nothing_pass(service: ModerationService, status: int) -> None:
    """Whatever stands in their bodies."""
    service.status = status
    settings = ScreenSettings(prompt_hook=True, hook_url=service.url, hook_allow_networks=LOOPBACK)
    async with open_prompt_screen(settings) as screen:
        assert screen is not None
        with pytest.raises(VitascopeError) as refused:
            await screen.check(["a red circle"])
    assert FailureCode.SCREEN_UNAVAILABLE is refused.value.code
