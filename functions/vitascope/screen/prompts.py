"""The text of a request before a prompt screen."""

from collections.abc import Iterator

import structlog
from pydantic import JsonValue

from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.jobs import VideoRequest
from vitascope.screen.ports import PromptScreen

log = structlog.get_logger(__name__)


async def check_prompt(screen: PromptScreen, request: VideoRequest) -> None:
    """Have the screen read what a request describes.

    Raises:
        VitascopeError: `prompt_refused`, with the category; `screen_unavailable`.
    """
    finding = await screen.check(list_texts(request))
    if finding is None:
        return
    log.info(
        "prompt refused",
        stage="ingress",
        tenant=request.tenant,
        model=request.model,
        screen=finding.screen,
        category=finding.category,
        rule=finding.rule,
    )
    raise VitascopeError(FailureCode.PROMPT_REFUSED, f"It was taken for {finding.category}.", param="prompt")


def list_texts(request: VideoRequest) -> tuple[str, ...]:
    """All that a model may read as a wish: the prompt, and every text among the extra parameters.

    The negative prompt is not among them: it names what must not be seen, in the very words that a rule looks for.
    """
    return (request.prompt, *_find_texts(dict(request.extra_params)))


def _find_texts(value: JsonValue) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _find_texts(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _find_texts(item)
