"""From settings to screens."""

from typing import Any

import pytest
from pydantic import ValidationError

from pictures import draw_shapes
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.encode.thumbnail import make_thumbnail
from vitascope.runtime.settings import ScreenSettings
from vitascope.screen import Still
from vitascope.screen.build import open_output_screen, open_prompt_screen
from vitascope.screen.rules import RulesInvalid

CLOSED_PORT = "http://127.0.0.1:9/v1/moderations"


async def test_nothing_is_on_by_itself() -> None:
    """Without a setting there is no screen."""
    settings = ScreenSettings()
    async with open_prompt_screen(settings) as prompts, open_output_screen(settings) as outputs:
        assert (None, None) == (prompts, outputs)


async def test_list_that_ships_is_named() -> None:
    """`builtin`."""
    async with open_prompt_screen(ScreenSettings(prompt_rules="builtin")) as screen:
        assert screen is not None
        finding = await screen.check(["p0rn"])
    assert finding is not None
    assert "sexual-explicit" == finding.rule


async def test_wrong_rules_keep_the_door_shut() -> None:
    """The process does not start."""
    with pytest.raises(RulesInvalid):
        async with open_prompt_screen(ScreenSettings(prompt_rules="/nowhere/rules.json")):
            pass


async def test_rules_come_before_the_hook() -> None:
    """What the rules refuse is not sent to anybody; what they pass waits for the hook, here one that is away."""
    settings = ScreenSettings(
        prompt_rules="builtin", prompt_hook=True, hook_url=CLOSED_PORT, hook_allow_networks=("127.0.0.0/8",)
    )
    async with open_prompt_screen(settings) as screen:
        assert screen is not None
        assert await screen.check(["p0rn"]) is not None
        with pytest.raises(VitascopeError) as refused:
            await screen.check(["a red circle"])
    assert FailureCode.SCREEN_UNAVAILABLE is refused.value.code


async def test_fail_open_passes_what_cannot_be_told() -> None:
    """By setting."""
    settings = ScreenSettings(
        prompt_hook=True, hook_url=CLOSED_PORT, hook_allow_networks=("127.0.0.0/8",), fail_open=True
    )
    async with open_prompt_screen(settings) as screen:
        assert screen is not None
        assert await screen.check(["a red circle"]) is None


async def test_model_has_its_threshold() -> None:
    """The default finds what the model is sure of."""
    async with open_output_screen(ScreenSettings(still_model=True)) as screen:
        assert screen is not None
        assert await screen.check([Still(0, make_thumbnail(draw_shapes(), 512))]) is not None


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        pytest.param({"prompt_hook": True}, "need hook_url", id="prompt-hook-without-url"),
        pytest.param({"still_hook": True}, "need hook_url", id="still-hook-without-url"),
        pytest.param({"hook_url": "ftp://x/"}, "begins with", id="another-scheme"),
        pytest.param({"hook_url": "http://x/"}, "hook_allow_networks", id="plain-http"),
        pytest.param({"stills": 0}, "stills", id="no-stills"),
        pytest.param({"still_threshold": 0}, "still_threshold", id="no-threshold"),
    ],
)
def test_settings_that_cannot_be(changes: dict[str, Any], says: str) -> None:
    """Are refused with their name."""
    with pytest.raises(ValidationError, match=says):
        ScreenSettings(**changes)
