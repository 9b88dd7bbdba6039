"""Connections that go to the very address that was judged; the name stays in the Host header and in TLS."""

from collections.abc import Iterable
from ipaddress import ip_address

import httpcore

from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.outbound.addresses import AddressRules, IpAddress
from vitascope.outbound.resolve import Resolver, find_addresses

MAX_TRIES = 3
"""Addresses of one name that are tried in turn."""


class PinnedBackend(httpcore.AsyncNetworkBackend):
    """Resolves, judges and connects in one go, so that no second look-up can give another address."""

    def __init__(self, resolver: Resolver, rules: AddressRules) -> None:
        self._resolver, self._rules = resolver, rules
        self._inner = httpcore.AnyIOBackend()

    async def connect_tcp(  # noqa: PLR0917 (httpcore's signature)
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 (httpcore's signature)
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to the first address of the host that answers.

        Raises:
            VitascopeError: `address_not_allowed`; `fetch_failed`.
            httpcore.ConnectError: nobody answers; `httpcore.ConnectTimeout` likewise.
        """
        addresses = (await self._find(host))[:MAX_TRIES]
        for address in addresses[:-1]:
            try:
                return await self._inner.connect_tcp(str(address), port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                continue
        return await self._inner.connect_tcp(str(addresses[-1]), port, timeout, local_address, socket_options)

    async def connect_unix_socket(
        self,
        path: str,  # noqa: ARG002 (httpcore's signature)
        timeout: float | None = None,  # noqa: ARG002, ASYNC109 (likewise)
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,  # noqa: ARG002 (likewise)
    ) -> httpcore.AsyncNetworkStream:
        """Never.

        Raises:
            VitascopeError: `address_not_allowed`.
        """
        raise VitascopeError(FailureCode.ADDRESS_NOT_ALLOWED)

    async def sleep(self, seconds: float) -> None:
        """Between httpcore's own tries, of which there are none here."""
        await self._inner.sleep(seconds)

    async def _find(self, host: str) -> list[IpAddress]:
        try:
            address = ip_address(host)
        except ValueError:
            return list(await find_addresses(self._resolver, host, self._rules))
        self._rules.check_address(address)
        return [address]
