"""What the doors ask of a screen."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Finding:
    """Why something does not pass.

    Attributes:
        screen: which screen says so: `rules`, `hook` or `model`.
        category: what it is, in words that the client may read.
        rule: which rule, score or label decided; for logs only, since it tells how to get around it.
    """

    screen: str
    category: str
    rule: str


@dataclass(frozen=True)
class Still:
    """One frame of a clip: its place, counted from 0, and the picture as JPEG."""

    frame: int
    jpeg: bytes


class PromptScreen(Protocol):
    """Looks at the text of a request."""

    async def check(self, texts: Sequence[str]) -> Finding | None:
        """What speaks against it; None if nothing does.

        Raises:
            VitascopeError: `screen_unavailable`, it cannot tell, so the text may not pass.
        """
        ...


class OutputScreen(Protocol):
    """Looks at a finished clip."""

    async def check(self, stills: Sequence[Still]) -> Finding | None:
        """As for `PromptScreen`, of pictures."""
        ...
