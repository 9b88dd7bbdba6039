"""The moderation hook: what it is asked, and how its answers are read."""

import base64
import json
from collections.abc import Mapping
from typing import Any

import pytest

from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.outbound import Answer
from vitascope.screen.moderation import (
    ANSWER_MAX_BYTES,
    UNNAMED,
    Moderation,
    ModerationPrompts,
    ModerationStills,
)
from vitascope.screen.ports import Finding, Still

URL = "https://moderation.example/v1/moderations"
PASSES: dict[str, Any] = {"results": [{"flagged": False, "categories": {"violence": False}, "category_scores": {}}]}
FLAGGED: dict[str, Any] = {
    "results": [{"flagged": True, "categories": {"violence": True, "hate": False, "sexual": True}}]
}


class Service:
    """Answers one after the other; the last one for ever."""

    def __init__(self, *answers: Answer | dict[str, Any] | bytes | VitascopeError) -> None:
        self.answers = list(answers)
        self.asked: list[dict[str, Any]] = []
        self.headers: Mapping[str, str] = {}
        self.limits: tuple[float, int] = (0.0, 0)

    async def ask(
        self, url: str, body: bytes, headers: Mapping[str, str], *, timeout_s: float, max_bytes: int
    ) -> Answer:
        assert url == URL
        self.asked.append(json.loads(body))
        self.headers, self.limits = headers, (timeout_s, max_bytes)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, VitascopeError):
            raise answer
        if isinstance(answer, Answer):
            return answer
        return Answer(200, answer if isinstance(answer, bytes) else json.dumps(answer).encode())


def prompts(service: Service, **options: Any) -> ModerationPrompts:
    return ModerationPrompts(Moderation(service, URL, timeout_s=3.0, **options))


async def test_all_texts_go_in_one_request() -> None:
    """With the key as a bearer token and the model, if there are any."""
    service = Service({"results": 2 * PASSES["results"]})
    assert await prompts(service, key="secret", model="omni").check(["a", "b"]) is None
    assert [{"input": ["a", "b"], "model": "omni"}] == service.asked
    assert "Bearer secret" == service.headers["authorization"]
    assert (3.0, ANSWER_MAX_BYTES) == service.limits


async def test_no_key_and_no_model_are_sent_without() -> None:
    """A service of one's own needs neither."""
    service = Service(PASSES)
    await prompts(service).check(["a"])
    assert [{"input": ["a"]}] == service.asked
    assert "authorization" not in service.headers


async def test_flagged_is_a_finding() -> None:
    """With the names of the categories that apply; one flagged result of several is enough."""
    answer = {"results": [*PASSES["results"], *FLAGGED["results"]]}
    assert Finding("hook", "sexual, violence", "flagged") == await prompts(Service(answer)).check(["a", "b"])


@pytest.mark.parametrize("categories", [pytest.param({}, id="none"), pytest.param({"b\u00f6se": True}, id="not-ascii")])
async def test_category_that_cannot_be_named(categories: dict[str, bool]) -> None:
    """The client is told a sentence of ours, not what a stranger wrote."""
    answer = {"results": [{"flagged": True, "categories": categories}]}
    assert Finding("hook", UNNAMED, "flagged") == await prompts(Service(answer)).check(["a"])


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(Answer(500, b""), id="500"),
        pytest.param(Answer(429, b""), id="429"),
        pytest.param(Answer(302, b""), id="redirect"),
        pytest.param(b"<html>", id="no-json"),
        pytest.param({"results": []}, id="no-results"),
        pytest.param({"results": [{"categories": {}}]}, id="no-flag"),
        pytest.param({"results": [{"flagged": "false"}]}, id="flag-as-text"),
        pytest.param(VitascopeError(FailureCode.FETCH_FAILED, "at 10.0.0.7"), id="no-answer"),
        pytest.param(VitascopeError(FailureCode.ADDRESS_NOT_ALLOWED), id="address"),
        pytest.param(VitascopeError(FailureCode.MEDIA_TOO_LARGE), id="too-long"),
    ],
)
async def test_anything_else_is_no_answer(answer: Answer | dict[str, Any] | bytes | VitascopeError) -> None:
    """Only a clear no lets something pass."""
    with pytest.raises(VitascopeError) as refused:
        await prompts(Service(answer)).check(["a"])
    assert FailureCode.SCREEN_UNAVAILABLE is refused.value.code
    assert "10.0.0.7" not in str(refused.value)


async def test_each_still_is_a_request() -> None:
    """As a data URL, in the order of the frames; the first finding ends it."""
    stills = [Still(frame, bytes([frame])) for frame in range(8)]
    service = Service(PASSES, FLAGGED, PASSES)
    finding = await ModerationStills(Moderation(service, URL, timeout_s=3.0)).check(stills)
    assert finding is not None
    assert "sexual, violence" == finding.category
    shown = [asked["input"][0]["image_url"]["url"].removeprefix("data:image/jpeg;base64,") for asked in service.asked]
    assert [b"\0", b"\1", b"\2", b"\3"] == [base64.b64decode(picture) for picture in shown]


async def test_stills_pass_if_all_do() -> None:
    """Each of them was asked about."""
    service = Service(PASSES)
    stills = [Still(frame, b"x") for frame in range(6)]
    assert await ModerationStills(Moderation(service, URL, timeout_s=3.0)).check(stills) is None
    assert 6 == len(service.asked)


async def test_stills_wait_for_an_answer() -> None:
    """One that got no answer, and none was flagged before it: it cannot be told."""
    service = Service(PASSES, Answer(500, b""), PASSES)
    with pytest.raises(VitascopeError) as refused:
        await ModerationStills(Moderation(service, URL, timeout_s=3.0)).check([Still(0, b"x"), Still(1, b"y")])
    assert FailureCode.SCREEN_UNAVAILABLE is refused.value.code


async def test_fewer_answers_than_texts_let_nothing_pass() -> None:
    """Nobody knows which of them was looked at."""
    with pytest.raises(VitascopeError) as caught:
        await prompts(Service(PASSES)).check(["a", "b"])
    assert FailureCode.SCREEN_UNAVAILABLE == caught.value.code
