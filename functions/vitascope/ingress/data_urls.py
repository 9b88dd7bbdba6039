"""Data URLs: media inside the request, in base64."""

import binascii
import re
from pathlib import Path

from vitascope.contracts.failures import FailureCode, VitascopeError

PREFIX = "data:"
_HEAD = re.compile(r"data:(?P<type>[a-z0-9.+/-]{0,100})(;[a-z0-9-]{1,50}=[^;,]{0,100}){0,4};base64", re.IGNORECASE)
_HEAD_MAX_CHARS = 1024
BASE64_BYTES_OF_4 = 3


def save_data_url(url: str, path: Path, *, max_bytes: int, kinds: tuple[str, ...]) -> None:
    """Write what a data URL holds to a file. Blocking.

    Args:
        url: begins with `data:`, in any case.
        path: the file.
        max_bytes: of the contents.
        kinds: the first halves of media types that fit: `image`, `video`, `audio`.

    Raises:
        VitascopeError: `invalid_request`: no base64, or of another kind; `media_too_large`.
    """
    comma = url.find(",", 0, _HEAD_MAX_CHARS)
    match = _HEAD.fullmatch(url, 0, comma) if comma >= 0 else None
    if match is None:
        raise _refuse("A data URL looks like data:image/png;base64,iVBORw0…")
    if match["type"].lower().partition("/")[0] not in kinds:
        raise _refuse(f"Its data URL must begin with {' or '.join(f'data:{kind}/' for kind in kinds)}.")
    if (len(url) - comma) // 4 * BASE64_BYTES_OF_4 > max_bytes + 4:
        raise VitascopeError(FailureCode.MEDIA_TOO_LARGE, f"The limit is {max_bytes} bytes.")
    try:
        content = binascii.a2b_base64(url[comma + 1 :].encode("ascii"), strict_mode=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise _refuse("Its data URL is not valid base64.") from error
    if not content:
        raise _refuse("Its data URL is empty.")
    if len(content) > max_bytes:
        raise VitascopeError(FailureCode.MEDIA_TOO_LARGE, f"The limit is {max_bytes} bytes.")
    path.write_bytes(content)


def _refuse(detail: str) -> VitascopeError:
    return VitascopeError(FailureCode.INVALID_REQUEST, detail)
