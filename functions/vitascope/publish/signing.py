"""Signed URLs of finished files."""

from datetime import datetime, timedelta

from vitascope.contracts.jobs import ObjectRef
from vitascope.runtime.ports import Clock, ObjectStore


class UrlSigner:
    """Makes URLs that let anybody who has one GET a file, without a key, until they expire."""

    def __init__(self, store: ObjectStore, clock: Clock, expires_s: int) -> None:
        self._store, self._clock, self._expires_s = store, clock, expires_s

    async def sign(self, ref: ObjectRef) -> tuple[str, datetime]:
        """The URL and the moment it expires."""
        expires = self._clock.now() + timedelta(seconds=self._expires_s)
        return await self._store.sign(ref.key, self._expires_s), expires
