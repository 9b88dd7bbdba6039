"""Which groups have been heard of lately, as far as somebody has listened without a break. Pure."""

from collections.abc import Collection
from datetime import datetime, timedelta

from vitascope.contracts.pools import LEASE_S

SILENCE = timedelta(seconds=4 * LEASE_S)
"""A group that is not heard of for so long is gone: it has lost its lease and its jobs, and has not come back."""
GAP = timedelta(seconds=2 * LEASE_S)
"""Who has not listened for so long has heard nothing before either: rows vanish during an outage, too."""


class GroupsSeen:
    """Groups by (pool, group), and when each was last there."""

    def __init__(self) -> None:
        self._since: datetime | None = None
        self._last: datetime | None = None
        self._seen: dict[tuple[str, str], datetime] = {}

    def note(self, groups: Collection[tuple[str, str]], now: datetime) -> None:
        """These are there now."""
        if self._last is None or not timedelta(0) <= now - self._last <= GAP:
            self._since = now
        self._last = now
        self._seen = {group: seen for group, seen in self._seen.items() if now - seen < SILENCE}
        self._seen.update(dict.fromkeys(groups, now))

    def interrupt(self) -> None:
        """Nothing could be heard: the silence begins anew."""
        self._last = None

    def list_kept(self, now: datetime) -> frozenset[tuple[str, str]] | None:
        """Groups that are not gone; None while it is too early to tell."""
        if self._last is None or self._since is None or now - self._since < SILENCE or now - self._last > GAP:
            return None
        return frozenset(self._seen)
