"""From where a door without keys may be reached: this machine, and of the web pages open on it only its own.

Without keys whoever reaches the door may do everything. Bound to loopback it is out of reach of other machines, but not
of the pages in this machine's browsers: they can post forms to any address, and a name of theirs can be made to stand
for 127.0.0.1. So such a door also looks at the `Host` and the `Origin` that a browser sends.
"""

from collections.abc import Collection, Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit

from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.runtime.settings import IngressSettings

ANY_ORIGIN = "*"


def is_anonymous(settings: IngressSettings) -> bool:
    """Whether nobody is asked who they are."""
    return settings.api_key is None and settings.jwt is None


def check_reach(settings: IngressSettings) -> None:
    """Refuse to open a door to everybody.

    Raises:
        ValueError: it would be open without keys on an address that others reach, or to every web page.
    """
    if not is_anonymous(settings):
        return
    if not is_loopback(settings.host):
        raise ValueError(
            f"VITASCOPE_INGRESS__HOST is {settings.host}, where others reach it, and nothing asks who they are: set "
            "VITASCOPE_INGRESS__API_KEY or VITASCOPE_INGRESS__JWT__ISSUER, or bind to 127.0.0.1",
        )
    if ANY_ORIGIN in settings.cors_origins:
        raise ValueError(
            'VITASCOPE_INGRESS__CORS_ORIGINS has "*", which without VITASCOPE_INGRESS__API_KEY lets every web page in',
        )


def is_loopback(host: str) -> bool:
    """Whether a host's name or address is this machine's own loopback; names but `localhost` are not looked up."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def check_local(headers: Mapping[str, str], origins: Collection[str]) -> None:
    """Check that a request without a key comes from this machine, and from no foreign web page.

    Args:
        headers: of the request; names in lower case.
        origins: web pages that may ask all the same.

    Raises:
        VitascopeError: `forbidden`.
    """
    host = headers.get("host", "")
    if not is_loopback(_read_hostname(f"//{host}")):
        detail = "Without API keys this service answers under a loopback address only."
        raise VitascopeError(FailureCode.FORBIDDEN, detail, param="Host")
    origin = headers.get("origin")
    if origin is None or origin in origins or origin in {f"http://{host}", f"https://{host}"}:
        return
    raise VitascopeError(FailureCode.FORBIDDEN, "Web pages of that origin may not use this service.", param="Origin")


def _read_hostname(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
