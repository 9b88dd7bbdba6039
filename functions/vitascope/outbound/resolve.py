"""Names to addresses."""

import asyncio
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address
from typing import Protocol

from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.outbound.addresses import AddressRules, IpAddress

LOOKUPS = 8
"""Names that are looked up at once; a slow name server holds these threads, and none of the process's others."""
MAX_ADDRESSES = 16
"""Of one name; nobody needs more, and each of them is judged."""


class Resolver(Protocol):
    """Looks names up."""

    async def resolve(self, host: str) -> Sequence[IpAddress]:
        """All addresses of a name, in the order in which to try them; none if there is no such name.

        Raises:
            OSError: no answer.
        """
        ...


class SystemResolver:
    """The machine's own: hosts file, search rules and name servers."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(LOOKUPS, "lookup")

    async def resolve(self, host: str) -> Sequence[IpAddress]:
        """See `Resolver`."""
        rows = await asyncio.get_running_loop().run_in_executor(self._threads, _look_up, host)
        return list(dict.fromkeys(ip_address(row) for row in rows))


def _look_up(host: str) -> list[str]:
    try:
        rows = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        if error.errno in {socket.EAI_NONAME, socket.EAI_NODATA}:
            return []
        raise
    except UnicodeError:  # a label that is too long for the system's own encoder
        return []
    return [str(row[4][0]) for row in rows]


async def find_addresses(resolver: Resolver, host: str, rules: AddressRules) -> Sequence[IpAddress]:
    """The addresses of a name, if every one of them may be reached: a mixed answer is an attempt at something.

    Raises:
        VitascopeError: `address_not_allowed`; `fetch_failed`, the name has no address.
    """
    try:
        addresses = await resolver.resolve(host)
    except OSError as error:
        raise VitascopeError(FailureCode.FETCH_FAILED, "Its name could not be looked up.") from error
    if not addresses:
        raise VitascopeError(FailureCode.FETCH_FAILED, "Its name has no address.")
    for address in addresses:
        rules.check_address(address)
    return addresses[:MAX_ADDRESSES]
