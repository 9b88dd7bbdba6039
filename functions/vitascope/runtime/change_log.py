"""The newest changes of all jobs in the order of the ledger's revisions, so that a reader who was away can go on.

Every replica has its own, fed by the ledger's feed. Revisions are the same everywhere, so a reader may go on at another
replica, also at one that is behind. What a log no longer has, or never had, it says; it never skips anything silently.
A state that was overtaken within an outage of the feed may be missing, as in the feed itself; the newest never is.
"""

import asyncio
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import takewhile

from vitascope.contracts.failures import Failure
from vitascope.contracts.flow import TERMINAL, State
from vitascope.runtime.ports import Stamped

MAX_KEPT = 10_000
"""Changes that are kept, of all tenants: some MB, and minutes of a service that takes hundreds of jobs a second."""
MAX_LAG = 1_000_000
"""Revisions that a replica may be behind another one. A reader who claims to be further is not from here."""


@dataclass(frozen=True)
class Change:
    """What a reader may see of a record's new state."""

    revision: int
    job: str
    tenant: str
    state: State
    attempt: int
    reason: str | None
    failure: Failure | None

    @property
    def is_end(self) -> bool:
        """Whether nothing but expiry can follow."""
        return self.state in TERMINAL

    def says_the_same(self, other: "Change | None") -> bool:
        """Whether both show the job in the same way: a checkpoint, for example, is no news."""
        return other is not None and replace(other, revision=self.revision) == self


def make_change(stamped: Stamped) -> Change:
    """The change that led to a record."""
    record = stamped.record
    return Change(
        revision=stamped.revision,
        job=record.id,
        tenant=record.request.tenant,
        state=record.state,
        attempt=record.run.attempt,
        reason=record.run.reason,
        failure=record.run.failure,
    )


class ChangeLog:
    """For one event loop."""

    def __init__(self, max_kept: int = MAX_KEPT) -> None:
        self._max_kept = max_kept
        self._kept: deque[Change] = deque()
        self._floor = self._newest = 0
        self._live: dict[str, Change] = {}
        self._readers: dict[str, set[asyncio.Event]] = defaultdict(set)

    @property
    def newest(self) -> int:
        """The highest revision that was seen."""
        return self._newest

    def begin(self, replay: Sequence[Change]) -> None:
        """Take in what a new feed begins with: at first it is history, later whatever the last feed did not show."""
        is_first = self._newest == 0
        for change in sorted(replay, key=lambda one: one.revision):
            self._add(change)
        if is_first:
            self._kept.clear()
            self._floor = self._newest

    def add(self, stamped: Stamped) -> None:
        """Take in what a feed shows; what is not newer than all before is known."""
        if stamped.revision > self._newest:
            self._add(make_change(stamped))

    def reaches(self, revision: int) -> bool:
        """Whether every change after that revision is here, or will be."""
        return self._floor <= revision <= self._newest + MAX_LAG

    def read(self, tenant: str, after: int) -> Sequence[Change]:
        """The tenant's changes after a revision, oldest first.

        Raises:
            LookupError: some of them are no longer here.
        """
        if not self.reaches(after):
            raise LookupError(f"changes after revision {after} are not kept")
        newer = takewhile(lambda change: change.revision > after, reversed(self._kept))
        return [change for change in newer if change.tenant == tenant][::-1]

    @contextmanager
    def listen(self, tenant: str, news: asyncio.Event) -> Iterator[None]:
        """Have `news` set whenever a job of the tenant changes."""
        self._readers[tenant].add(news)
        try:
            yield
        finally:
            self._readers[tenant].discard(news)
            if not self._readers[tenant]:
                del self._readers[tenant]

    def _add(self, change: Change) -> None:
        self._newest = change.revision
        if change.says_the_same(self._live.get(change.job)):
            return
        if change.is_end:
            self._live.pop(change.job, None)
        else:
            self._live[change.job] = change
        self._kept.append(change)
        if len(self._kept) > self._max_kept:
            self._floor = self._kept.popleft().revision
        for news in self._readers.get(change.tenant, ()):
            news.set()
