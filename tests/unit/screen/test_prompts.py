"""What of a request is shown to a prompt screen, and what becomes of a finding."""

from collections.abc import Sequence

import pytest
from structlog.testing import capture_logs

from records import video_request
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.screen import Finding, check_prompt


class Listening:
    """Notes what it is shown."""

    def __init__(self, finding: Finding | None = None) -> None:
        self.finding, self.seen = finding, tuple[str, ...]()

    async def check(self, texts: Sequence[str]) -> Finding | None:
        self.seen = tuple(texts)
        return self.finding


async def test_every_wish_is_shown() -> None:
    """The prompt and texts at any depth of the extra parameters; not what must not be seen, nor labels."""
    screen = Listening()
    extra = {"prompt_2": "b", "deep": [{"text": "c", "n": 3}], "none": None}
    await check_prompt(screen, video_request(prompt="a", negative_prompt="x", labels={"y": "z"}, extra_params=extra))
    assert ("a", "b", "c") == screen.seen


async def test_finding_refuses_the_prompt() -> None:
    """The client is told the category; the log has the rule, and nobody has the prompt."""
    screen = Listening(Finding("rules", "fruit", "r1"))
    with capture_logs() as lines, pytest.raises(VitascopeError) as refused:
        await check_prompt(screen, video_request(prompt="an apple"))
    assert FailureCode.PROMPT_REFUSED is refused.value.code
    assert "prompt" == refused.value.param
    assert "fruit" in str(refused.value)
    assert "r1" not in str(refused.value)
    assert ["r1"] == [line["rule"] for line in lines]
    assert "apple" not in str(lines)
