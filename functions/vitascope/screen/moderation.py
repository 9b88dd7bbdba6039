"""The moderation hook: another service says whether texts and pictures may pass.

It is asked as OpenAI's `/v1/moderations` is, which other services answer too: `{"input": …, "model": …}`, and for each
input a result with `flagged` and `categories`. Whatever else comes back, the screen cannot tell.
"""

import asyncio
import base64
import json
from collections.abc import Mapping, Sequence
from typing import Protocol

from pydantic import BaseModel, JsonValue, ValidationError

from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.outbound import Answer
from vitascope.screen.ports import Finding, Still

ANSWER_MAX_BYTES = 256 * 1024
"""A result has about 1 KiB for each input."""
STILLS_AT_ONCE = 4
"""Pictures of one clip that are asked about at the same time; a request may hold one only."""
OK = 200
UNNAMED = "content that is not allowed"
MAX_CATEGORY_CHARS = 80


class Asker(Protocol):
    """Posts to an address; `outbound.Outbound` does."""

    async def ask(
        self, url: str, body: bytes, headers: Mapping[str, str], *, timeout_s: float, max_bytes: int
    ) -> Answer:
        """The answer with its body.

        Raises:
            VitascopeError: `fetch_failed`; `address_not_allowed`; `media_too_large`, it is longer than `max_bytes`.
        """
        ...


class _Result(BaseModel):
    flagged: bool
    categories: dict[str, bool | None] = {}


class _Answer(BaseModel):
    results: list[_Result]


class Moderation:
    """One service that answers for others."""

    def __init__(
        self, asker: Asker, url: str, *, key: str | None = None, model: str | None = None, timeout_s: float
    ) -> None:
        self._asker, self._url, self._model, self._timeout_s = asker, url, model, timeout_s
        self._headers = {"content-type": "application/json"}
        if key is not None:
            self._headers["authorization"] = f"Bearer {key}"

    async def ask(self, inputs: Sequence[JsonValue]) -> Finding | None:
        """What speaks against any of the inputs.

        Raises:
            VitascopeError: `screen_unavailable`.
        """
        body: dict[str, JsonValue] = {"input": list(inputs)}
        if self._model is not None:
            body["model"] = self._model
        try:
            answer = await self._asker.ask(
                self._url,
                json.dumps(body).encode(),
                self._headers,
                timeout_s=self._timeout_s,
                max_bytes=ANSWER_MAX_BYTES,
            )
        except VitascopeError as error:
            raise VitascopeError(FailureCode.SCREEN_UNAVAILABLE, "The hook does not answer.") from error
        if answer.status != OK:
            raise VitascopeError(FailureCode.SCREEN_UNAVAILABLE, f"The hook answers {answer.status}.")
        return _judge(_read(answer.body, sum(isinstance(one, str) for one in inputs)))


class ModerationPrompts:
    """A `PromptScreen`."""

    def __init__(self, moderation: Moderation) -> None:
        self._moderation = moderation

    async def check(self, texts: Sequence[str]) -> Finding | None:
        """All texts in one request."""
        return await self._moderation.ask(list(texts))


class ModerationStills:
    """An `OutputScreen`."""

    def __init__(self, moderation: Moderation) -> None:
        self._moderation = moderation

    async def check(self, stills: Sequence[Still]) -> Finding | None:
        """One request a picture, `STILLS_AT_ONCE` at a time; the first finding in the order of the frames."""
        for start in range(0, len(stills), STILLS_AT_ONCE):
            group = stills[start : start + STILLS_AT_ONCE]
            asked = [self._moderation.ask([_show(still)]) for still in group]
            findings = await asyncio.gather(*asked, return_exceptions=True)
            for finding in findings:
                if isinstance(finding, BaseException):
                    raise finding
                if finding is not None:
                    return finding
        return None


def _show(still: Still) -> JsonValue:
    address = f"data:image/jpeg;base64,{base64.b64encode(still.jpeg).decode()}"
    return {"type": "image_url", "image_url": {"url": address}}


def _read(stored: bytes, count: int) -> list[_Result]:
    """The results: one for each text, as the API has it, and one at least; with fewer, something went unchecked."""
    try:
        results = _Answer.model_validate_json(stored, strict=True).results
    except ValidationError as error:
        raise VitascopeError(FailureCode.SCREEN_UNAVAILABLE, "The hook's answer cannot be read.") from error
    if len(results) < max(count, 1):
        raise VitascopeError(FailureCode.SCREEN_UNAVAILABLE, "The hook's answer has too few results.")
    return results


def _judge(results: Sequence[_Result]) -> Finding | None:
    flagged = [result for result in results if result.flagged]
    if not flagged:
        return None
    names = sorted({name for result in flagged for name, is_so in result.categories.items() if is_so})
    text = ", ".join(names)
    category = text if text.isascii() and text.isprintable() and text else UNNAMED
    return Finding("hook", category[:MAX_CATEGORY_CHARS], "flagged")
