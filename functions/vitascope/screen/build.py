"""The screens that the settings ask for."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from vitascope.outbound import AddressRules, Outbound
from vitascope.runtime.settings import ScreenSettings
from vitascope.screen.chain import Screen, ScreenChain
from vitascope.screen.model import StillsModel, load_classifier
from vitascope.screen.moderation import Asker, Moderation, ModerationPrompts, ModerationStills
from vitascope.screen.ports import OutputScreen, PromptScreen, Still
from vitascope.screen.rules import RuleScreen, load_rules


@asynccontextmanager
async def open_prompt_screen(settings: ScreenSettings) -> AsyncIterator[PromptScreen | None]:
    """The screen for prompts, the cheapest check first; None if none is set.

    Raises:
        RulesInvalid: the list of rules cannot be used.
    """
    async with _open_outbound(settings) as outbound:
        links: list[tuple[str, Screen[str]]] = []
        if settings.prompt_rules is not None:
            links.append(("rules", RuleScreen(load_rules(settings.prompt_rules))))
        if settings.prompt_hook:
            links.append(("hook", ModerationPrompts(_make_moderation(settings, outbound))))
        yield ScreenChain(links, is_open=settings.fail_open) if links else None


@asynccontextmanager
async def open_output_screen(settings: ScreenSettings) -> AsyncIterator[OutputScreen | None]:
    """The screen for finished clips; None if none is set. Loads the model, which takes some 0.1 s.

    Raises:
        ModelMissing: the model is asked for and not there.
    """
    async with _open_outbound(settings) as outbound:
        links: list[tuple[str, Screen[Still]]] = []
        if settings.still_model:
            links.append(("model", StillsModel(load_classifier(), settings.still_threshold)))
        if settings.still_hook:
            links.append(("hook", ModerationStills(_make_moderation(settings, outbound))))
        yield ScreenChain(links, is_open=settings.fail_open) if links else None


def _open_outbound(settings: ScreenSettings) -> Outbound:
    """A client of its own: what may be reached for the hook may not be reached for a stranger's address."""
    return Outbound(
        AddressRules(
            allow_http=bool(settings.hook_allow_networks),
            follow_redirects=False,
            allowed=settings.hook_allow_networks,
        )
    )


def _make_moderation(settings: ScreenSettings, asker: Asker) -> Moderation:
    assert settings.hook_url is not None, "the settings were checked"
    return Moderation(
        asker,
        settings.hook_url,
        key=settings.hook_key.get_secret_value() if settings.hook_key is not None else None,
        model=settings.hook_model,
        timeout_s=settings.hook_timeout_s,
    )
