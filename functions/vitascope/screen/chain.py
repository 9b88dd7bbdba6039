"""Several screens in turn, and what becomes of a job when one of them cannot tell."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import structlog
from prometheus_client import Counter

from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.screen.ports import Finding

Shown_contra = TypeVar("Shown_contra", contravariant=True)
SCREENED = Counter("vitascope_screened_total", "Answers of screens, by screen and answer.", ["screen", "answer"])

log = structlog.get_logger(__name__)


class Screen(Protocol[Shown_contra]):
    """Either kind of screen."""

    async def check(self, shown: Sequence[Shown_contra], /) -> Finding | None:
        """As `PromptScreen` and `OutputScreen` say."""
        ...


@dataclass(frozen=True)
class ScreenChain(Generic[Shown_contra]):
    """The first finding counts.

    Attributes:
        links: the screens in their order, each with the name that logs and metrics have for it.
        is_open: whether a screen that cannot tell is passed over; else nothing passes until it can.
    """

    links: Sequence[tuple[str, Screen[Shown_contra]]]
    is_open: bool

    async def check(self, shown: Sequence[Shown_contra]) -> Finding | None:
        """Ask one after the other.

        Raises:
            VitascopeError: `screen_unavailable`, unless the chain is open.
        """
        for name, screen in self.links:
            try:
                finding = await screen.check(shown)
            except VitascopeError as error:
                if error.code is not FailureCode.SCREEN_UNAVAILABLE:
                    raise
                SCREENED.labels(screen=name, answer="none").inc()
                log.warning("screen unavailable", screen=name, is_open=self.is_open, error=str(error))
                if not self.is_open:
                    raise
                continue
            SCREENED.labels(screen=name, answer="passes" if finding is None else "refuses").inc()
            if finding is not None:
                return finding
        return None
