"""The address that hears of a job: its form. Whether the service may connect to it is the door's matter."""

from urllib.parse import urlsplit

from vitascope.admission.fields import Fields, refuse
from vitascope.admission.text import check_text

FIELD = "callback_url"
CALLBACK_MAX_BYTES = 1024
_SCHEMES = frozenset({"http", "https"})


def read_callback_url(fields: Fields) -> str | None:
    """The address, http or https with a host; None if the request has none."""
    url = fields.read_str(FIELD)
    if url is None:
        return None
    check_text(FIELD, url, CALLBACK_MAX_BYTES)
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in _SCHEMES and bool(parts.hostname) and url.isascii() and " " not in url
    except ValueError:  # brackets that hold no IPv6 address
        is_address = False
    if not is_address:
        raise refuse(FIELD, f"{FIELD} is an http or https address such as https://example.com/hook.")
    return url
