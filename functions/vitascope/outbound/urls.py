"""A URL from a stranger, taken apart once: what is checked is what is connected to, so that no two parsers differ."""

import re
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import NoReturn
from urllib.parse import quote, urljoin, urlsplit

import idna

from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.outbound.addresses import AddressRules, IpAddress

MAX_URL_CHARS = 2048
PRIVILEGED_PORTS = 1024
"""Below it live the protocols of machines; of those a stranger may name only the web's."""
MAX_PORT = 65535
DEFAULT_PORTS = {"http": 80, "https": 443}
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f\\]")
_SAFE = "!#$%&'()*+,/:;=?@[]~-._"
_AUTHORITY = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^:\[\]@%]+)(?::(?P<port>[0-9]{0,5}))?")
_NUMERIC_LABEL = re.compile(r"[0-9]+|0[xX][0-9a-fA-F]*")
_HOST_NAME = re.compile(r"(?=.{1,253}$)[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*")


@dataclass(frozen=True)
class Target:
    """Where a request goes.

    Attributes:
        scheme: `http` or `https`.
        host: a name in lower-case ASCII, or an address without brackets.
        port: 1 to 65535.
        path: path and query, percent-encoded; begins with a slash.
        address: what `host` is, if it is an address and no name.
    """

    scheme: str
    host: str
    port: int
    path: str
    address: IpAddress | None = None

    @property
    def is_secure(self) -> bool:
        """Whether it is encrypted."""
        return self.scheme == "https"

    @property
    def authority(self) -> str:
        """Host and, if it is not the usual one, port, as the `Host` header has them."""
        host = f"[{self.host}]" if isinstance(self.address, IPv6Address) else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The URL again, as it was understood."""
        return f"{self.scheme}://{self.authority}{self.path}"


def read_url(url: str, rules: AddressRules) -> Target:
    """Take a URL apart and check all that can be checked without resolving its name.

    Raises:
        VitascopeError: `address_not_allowed`, with the rule that refused it.
    """
    if len(url) > MAX_URL_CHARS:
        _refuse(f"A URL has at most {MAX_URL_CHARS} characters.")
    if _FORBIDDEN.search(url):
        _refuse("A URL has no spaces, control characters or backslashes.")
    try:
        parts = urlsplit(url)
    except ValueError:
        _refuse("The URL cannot be read.")
    scheme = parts.scheme.lower()
    if scheme not in (("https", "http") if rules.allow_http else ("https",)):
        _refuse("Only https and http are taken." if rules.allow_http else "Only https is taken.")
    if "@" in parts.netloc:
        _refuse("A URL must not hold a user name or a password.")
    match = _AUTHORITY.fullmatch(parts.netloc)
    if match is None:
        _refuse("Its host cannot be read.")
    host, address = _read_host(match["host"])
    path = quote(parts.path or "/", safe=_SAFE) + (f"?{quote(parts.query, safe=_SAFE)}" if parts.query else "")
    target = Target(scheme, host, int(match["port"] or DEFAULT_PORTS[scheme]), path, address)
    _check_port(target, rules)
    if address is not None:
        rules.check_address(address)
    return target


def read_redirect(origin: Target, location: str, rules: AddressRules) -> Target:
    """The next hop of an answer's `Location`, which may be relative.

    Raises:
        VitascopeError: `address_not_allowed`: as `read_url`, or from https to http.
    """
    try:
        joined = urljoin(origin.url, location)
    except ValueError:
        _refuse("Its redirect cannot be read.")
    target = read_url(joined, rules)
    if origin.is_secure and not target.is_secure:
        _refuse("It redirects from https to http.")
    return target


def _read_host(text: str) -> tuple[str, IpAddress | None]:
    """The host in the one form that is used from here on. Old spellings of addresses are refused, not understood."""
    if text.startswith("["):
        try:
            six = IPv6Address(text[1:-1])
        except AddressValueError:
            _refuse("Its host is not an IPv6 address.")
        return str(six), six
    try:
        host = idna.encode(text, uts46=True).decode() if not text.isascii() else text.lower()
    except idna.IDNAError:
        _refuse("Its host is not a name.")
    host = host.removesuffix(".")
    if _HOST_NAME.fullmatch(host) is None:
        _refuse("Its host is not a name.")
    if _NUMERIC_LABEL.fullmatch(host.rsplit(".", 1)[-1]) is None:
        return host, None
    try:
        four = IPv4Address(host)
    except AddressValueError:
        _refuse("An IPv4 address is written as four decimal numbers.")
    return str(four), four


def _check_port(target: Target, rules: AddressRules) -> None:
    if not 1 <= target.port <= MAX_PORT:
        _refuse("Its port is not a number from 1 to 65535.")
    is_let_in = target.address is not None and rules.is_let_in(target.address)
    if target.port < PRIVILEGED_PORTS and target.port not in DEFAULT_PORTS.values() and not is_let_in:
        _refuse(f"Of the ports below {PRIVILEGED_PORTS} only 80 and 443 are taken.")


def _refuse(detail: str) -> NoReturn:
    raise VitascopeError(FailureCode.ADDRESS_NOT_ALLOWED, detail)
