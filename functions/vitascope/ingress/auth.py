"""The API key: one for the whole service, if the settings name one."""

import hmac
from typing import Annotated

from fastapi import Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.ingress.door import GivenDoor

_BEARER = HTTPBearer(auto_error=False, scheme_name="apiKey", description="needed if the service has a key")


async def check_api_key(
    door: GivenDoor,
    credentials: Annotated[HTTPAuthorizationCredentials | None, Security(_BEARER)],
) -> None:
    """Let the request pass if no key is set, or if it carries the right one; the time taken tells nothing.

    Raises:
        VitascopeError: `unauthenticated`.
    """
    key = door.deps.settings.api_key
    if key is None:
        return
    sent = credentials.credentials.encode("latin-1") if credentials else b""  # a header's bytes as they came
    if not hmac.compare_digest(sent, key.get_secret_value().encode()):
        raise VitascopeError(FailureCode.UNAUTHENTICATED, "Send `Authorization: Bearer <key>`.", param="Authorization")
