"""A read model of all tenants, fed by the changes of their bucket: whom a key stands for, without asking a server.

It is never told to forget a tenant, so a bucket that is lost and filled again locks nobody out meanwhile.
"""

import asyncio

import structlog

from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.keys import ApiKey
from vitascope.contracts.tenants import Tenant
from vitascope.runtime.tenants import StampedTenant, TenantBook

RETRY_S = 1.0
"""Between two tries to follow a bucket that cannot be reached; ends with the process."""
RENEW_EVERY_S = 60.0
"""So often the bucket is looked at anew, in case that it was lost and is to be filled from the copies."""
CATCH_UP_S = 3.0
"""A change made at another replica is here after milliseconds; whoever waits longer for it is told so."""

log = structlog.get_logger(__name__)


class TenantIndex:
    """Tenants by name and by the digests of their keys. For one event loop."""

    def __init__(self, book: TenantBook) -> None:
        self._book = book
        self._tenants: dict[str, StampedTenant] = {}
        self._keys: dict[str, tuple[str, ApiKey]] = {}
        self._seen = 0
        self._synced, self._news = asyncio.Event(), asyncio.Event()
        self._asking = asyncio.Lock()
        self._begun = 0  # questions for the bucket's newest revision, counted
        self._answered, self._newest = 0, 0  # the last of them that had an answer, and what that was

    async def run(self) -> None:
        """Follow the bucket until cancelled; goes on by itself after an outage."""
        while True:
            try:
                await self._book.restore()
                async with asyncio.timeout(RENEW_EVERY_S), self._book.watch() as changes:
                    async for stamped in changes:
                        if stamped is None:
                            self._synced.set()
                        else:
                            self.apply(stamped)
            except TimeoutError:
                continue  # it is time to look anew
            except VitascopeError as error:
                log.warning("tenants cannot be followed", error=str(error))
            await asyncio.sleep(RETRY_S)

    def apply(self, stamped: StampedTenant) -> None:
        """Take a document in, unless as new a one of that tenant is known."""
        name = stamped.tenant.name
        known = self._tenants.get(name)
        if known is None or known.revision < stamped.revision:
            for key in known.tenant.keys if known is not None else ():
                self._keys.pop(key.sha256, None)
            self._tenants[name] = stamped
            self._keys.update({key.sha256: (name, key) for key in stamped.tenant.keys})
        self._seen = max(self._seen, stamped.revision)
        self._news.set()
        self._news = asyncio.Event()

    def find(self, name: str) -> Tenant | None:
        """The tenant of that name, as far as it is known here."""
        stamped = self._tenants.get(name)
        return stamped.tenant if stamped is not None else None

    def list_all(self) -> list[Tenant]:
        """All tenants in the order of their names."""
        return [self._tenants[name].tenant for name in sorted(self._tenants)]

    async def find_key(self, digest: str) -> tuple[Tenant, ApiKey] | None:
        """The key with that digest, and whose it is; None only if there is none anywhere at the time of the call.

        Raises:
            VitascopeError: `service_unavailable` or `bus_unavailable`, an unknown key, and it cannot be told whether it
                was made at another replica a moment ago.
        """
        if digest not in self._keys:
            await self.catch_up()
        found = self._keys.get(digest)
        if found is None:
            return None
        name, key = found
        return self._tenants[name].tenant, key

    async def catch_up(self) -> None:
        """Wait until every change that was made before this call is known here.

        Raises:
            VitascopeError: as `find_key`.
        """
        try:
            async with asyncio.timeout(CATCH_UP_S):
                await self._synced.wait()
                revision = await self._ask_revision()
                while self._seen < revision:
                    await self._news.wait()
        except TimeoutError as error:
            raise VitascopeError(FailureCode.SERVICE_UNAVAILABLE, "The tenants are still being read.") from error

    async def _ask_revision(self) -> int:
        """The bucket's newest revision. Those who ask at once share a question, if it began after they asked."""
        begun = self._begun
        async with self._asking:
            if self._answered <= begun:
                self._begun += 1
                number, newest = self._begun, await self._book.get_revision()
                self._answered, self._newest = number, newest
            return self._newest
