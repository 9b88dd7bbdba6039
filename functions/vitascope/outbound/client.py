"""The client: fetch media, post events, ask a service."""

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import httpcore

from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.outbound.addresses import AddressRules
from vitascope.outbound.body import read_into_file, read_into_memory
from vitascope.outbound.pinned import PinnedBackend
from vitascope.outbound.resolve import Resolver, SystemResolver, find_addresses
from vitascope.outbound.urls import Target, read_redirect, read_url

MAX_REDIRECTS = 5
MAX_CONNECTIONS = 1000
"""At once; whoever sends bounds its own share far below."""
CHECK_TIMEOUT_S = 5.0
"""To look a name up where nothing is sent yet."""
CONNECT_TIMEOUT_S = 5.0
"""For one of the addresses of a name, so that the next one gets its turn."""
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_OK = 200
_OWN_HEADERS = {"user-agent": "vitascope", "accept": "*/*", "accept-encoding": "identity"}
_MEDIA_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,63}/[a-z0-9][a-z0-9!#$&^_.+-]{0,63}")


@dataclass(frozen=True)
class Fetched:
    """What came.

    Attributes:
        media_type: what the server calls it, lower-case, without parameters; only a claim. None if it calls it nothing.
        bytes: how many there are in the file.
    """

    media_type: str | None
    bytes: int


@dataclass(frozen=True)
class Answer:
    """What a service answered."""

    status: int
    body: bytes


class Outbound:
    """Requests by fixed rules. Every request has a connection of its own, so that each is judged anew.

    Proxies of the environment are not used, cookies not kept, credentials never sent.
    """

    def __init__(
        self,
        rules: AddressRules,
        *,
        resolver: Resolver | None = None,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        """Takes the rules; and, to be tried out with a name server and a certificate of one's own, those."""
        self._rules = rules
        self._resolver = resolver or SystemResolver()
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=ssl_context,
            max_connections=MAX_CONNECTIONS,
            max_keepalive_connections=0,
            network_backend=PinnedBackend(self._resolver, rules),
        )

    async def __aenter__(self) -> Self:
        """Nothing is opened yet."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close what is open."""
        await self._pool.aclose()

    async def check_url(self, url: str) -> None:
        """Whether the URL may be reached as things are: its form, and every address of its name, within 5 s.

        It may be another tomorrow, so the check is made again whenever something is sent.

        Raises:
            VitascopeError: `address_not_allowed`; `fetch_failed`, the name has no address or nobody answers for it.
        """
        target = read_url(url, self._rules)
        if target.address is None:
            async with _time_limit(CHECK_TIMEOUT_S):
                await find_addresses(self._resolver, target.host, self._rules)

    async def fetch(self, url: str, *, max_bytes: int, timeout_s: float, into: Path) -> Fetched:
        """GET into a new file, over at most 5 redirects if the rules follow them. No file is left after a failure.

        Args:
            url: where it is.
            max_bytes: more are not taken.
            timeout_s: for all of it, look-up and every hop included.
            into: a path where nothing is yet.

        Raises:
            VitascopeError: `address_not_allowed`, of this or a further hop; `fetch_failed`: no answer in time, another
                status than 200, a compressed or broken body; `media_too_large`, as soon as that is known.
        """
        async with _time_limit(timeout_s):
            target = read_url(url, self._rules)
            for _ in range(MAX_REDIRECTS + 1):
                async with self._send("GET", target) as response:
                    if response.status not in _REDIRECTS:
                        return await _keep(response, into, max_bytes)
                    target = self._follow(target, response)
        raise VitascopeError(FailureCode.FETCH_FAILED, f"It redirects more than {MAX_REDIRECTS} times.")

    async def post(self, url: str, body: bytes, headers: Mapping[str, str], timeout_s: float) -> int:
        """POST, and give the status of the answer: a redirect is not followed, the answer's body not read.

        Raises:
            VitascopeError: `address_not_allowed`; `fetch_failed`, no answer in time.
        """
        target = read_url(url, self._rules)
        async with _time_limit(timeout_s), self._send("POST", target, headers, body) as response:
            return response.status

    async def ask(
        self, url: str, body: bytes, headers: Mapping[str, str], *, timeout_s: float, max_bytes: int
    ) -> Answer:
        """POST, and give the answer with its body. A redirect is not followed.

        Raises:
            VitascopeError: `address_not_allowed`; `fetch_failed`, no whole answer in time; `media_too_large`.
        """
        target = read_url(url, self._rules)
        async with _time_limit(timeout_s), self._send("POST", target, headers, body) as response:
            return Answer(response.status, await read_into_memory(response, max_bytes))

    @asynccontextmanager
    async def _send(
        self, method: str, target: Target, headers: Mapping[str, str] | None = None, body: bytes | None = None
    ) -> AsyncIterator[httpcore.Response]:
        """One request and the head of its answer; httpcore's errors become ours."""
        all_headers: dict[bytes | str, bytes | str] = dict(_OWN_HEADERS.items())
        all_headers |= {name.lower(): value for name, value in (headers or {}).items()}
        all_headers |= {"host": target.authority, "connection": "close"}
        url = httpcore.URL(
            scheme=target.scheme.encode(),
            host=target.host.encode(),
            port=target.port,
            target=target.path.encode(),
        )
        limits = {"timeout": {"connect": CONNECT_TIMEOUT_S}}
        try:
            async with self._pool.stream(method, url, headers=all_headers, content=body, extensions=limits) as response:
                yield response
        except httpcore.TimeoutException as error:
            raise VitascopeError(FailureCode.FETCH_FAILED, "It did not answer in time.") from error
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.PoolTimeout) as error:
            raise VitascopeError(FailureCode.FETCH_FAILED, "The connection failed or broke off.") from error

    def _follow(self, target: Target, response: httpcore.Response) -> Target:
        if not self._rules.follow_redirects:
            raise VitascopeError(FailureCode.ADDRESS_NOT_ALLOWED, "It redirects, and redirects are not followed here.")
        location = _get_header(response, b"location")
        if location is None:
            raise VitascopeError(FailureCode.FETCH_FAILED, "It redirects to nowhere.")
        return read_redirect(target, location, self._rules)


async def _keep(response: httpcore.Response, into: Path, max_bytes: int) -> Fetched:
    if response.status != _OK:
        raise VitascopeError(FailureCode.FETCH_FAILED, f"It answered with status {response.status}.")
    count = await read_into_file(response, into, max_bytes)
    claimed = (_get_header(response, b"content-type") or "").partition(";")[0].strip().lower()
    return Fetched(claimed if _MEDIA_TYPE.fullmatch(claimed) else None, count)


def _get_header(response: httpcore.Response, name: bytes) -> str | None:
    return next((value.decode("latin-1") for key, value in response.headers if key.lower() == name), None)


@asynccontextmanager
async def _time_limit(timeout_s: float) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(timeout_s):
            yield
    except TimeoutError as error:
        raise VitascopeError(FailureCode.FETCH_FAILED, f"It took longer than {timeout_s:g} s.") from error
