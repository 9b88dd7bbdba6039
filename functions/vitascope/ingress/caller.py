"""Who asks: the tenant that an API key stands for, and what the key allows."""

from typing import Annotated

from fastapi import Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from vitascope.contracts.tenants import DEFAULT_TENANT
from vitascope.ingress.auth import Caller, check_scope, compute_scope
from vitascope.ingress.door import GivenDoor
from vitascope.ingress.reach import check_local

__all__ = ["DEFAULT_TENANT", "Caller", "GivenCaller", "check_caller"]

_BEARER = HTTPBearer(auto_error=False, scheme_name="apiKey", description="needed if the service has a key")


async def check_caller(
    request: Request,
    door: GivenDoor,
    credentials: Annotated[HTTPAuthorizationCredentials | None, Security(_BEARER)],
) -> Caller:
    """The caller of a request, who may send it, and does not send too many. Found once a request.

    Raises:
        VitascopeError: `unauthenticated`; `forbidden`; `rate_limited`; or as `Authenticator.find`.
    """
    caller = await door.authenticator.find(credentials.credentials if credentials is not None else None)
    if caller.is_anonymous:
        check_local(request.headers, door.deps.settings.cors_origins)
    check_scope(caller, compute_scope(request.method, request.url.path))
    door.limits.check_rate(caller)
    return caller


GivenCaller = Annotated[Caller, Depends(check_caller)]
"""The parameter by which a handler learns who asks."""
