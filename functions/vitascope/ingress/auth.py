"""Who a bearer token stands for: the settings' key, a tenant's key, or a token of the identity provider."""

import hmac
from dataclasses import dataclass

from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.keys import ALL_SCOPES, KEY_PREFIX, Scope, compute_key_digest
from vitascope.contracts.tenants import DEFAULT_TENANT, Tenant
from vitascope.ingress.reach import is_anonymous
from vitascope.ingress.signed_tokens import SignedTokens, is_signed_token
from vitascope.runtime.ports import Clock
from vitascope.runtime.settings import IngressSettings
from vitascope.runtime.tenant_index import TenantIndex

_WEBHOOKS, _TENANTS, _ESTIMATE = "/v1/webhooks", "/v1/tenants", "/v1/video-jobs/estimate"
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True)
class Caller:
    """The one who sent a request.

    Attributes:
        tenant: whose jobs are read and made.
        scopes: what may be done.
        key: what its requests are counted by: the visible part of a key, or the subject of a token; None for the key in
            the settings, and where no key is asked for.
        is_anonymous: whether nothing said who it is.
    """

    tenant: str
    scopes: frozenset[Scope] = ALL_SCOPES
    key: str | None = None
    is_anonymous: bool = False


class Authenticator:
    """Finds the caller of a request. Keys are compared by digest or in constant time: the time taken tells nothing."""

    def __init__(self, settings: IngressSettings, tenants: TenantIndex, clock: Clock) -> None:
        self._tenants, self._clock = tenants, clock
        self._key = settings.api_key.get_secret_value().encode() if settings.api_key is not None else None
        self._signed = SignedTokens(settings.jwt) if settings.jwt is not None else None
        self._is_anonymous = is_anonymous(settings)

    async def find(self, token: str | None) -> Caller:
        """The caller that sent this bearer token, or none.

        A door without keys takes any token that does not claim to be one of its own: clients that insist on a key send
        something.

        Args:
            token: the header's bytes as they came, each as one character.

        Raises:
            VitascopeError: `unauthenticated`; `forbidden`, the tenant is disabled or unknown; `service_unavailable` or
                `bus_unavailable`, it cannot be told at the moment.
        """
        sent = (token or "").encode("latin-1")
        if token is not None and self._key is not None and hmac.compare_digest(sent, self._key):
            return self._admit(Caller(DEFAULT_TENANT))
        if token is not None and token.startswith(KEY_PREFIX):
            return await self._find_by_key(token)
        if token is not None and self._signed is not None and is_signed_token(token):
            return await self._find_by_signature(token, self._signed)
        if self._is_anonymous:
            return Caller(DEFAULT_TENANT, is_anonymous=True)
        raise _make_unknown()

    async def _find_by_key(self, token: str) -> Caller:
        found = await self._tenants.find_key(compute_key_digest(token))
        if found is None or not found[1].is_valid(self._clock.now()):
            raise _make_unknown()
        tenant, key = found
        return self._admit(Caller(tenant.name, key.scopes, key.id))

    async def _find_by_signature(self, token: str, signed: SignedTokens) -> Caller:
        claimed = await signed.read(token)
        if claimed is None:
            raise _make_unknown()
        if claimed.tenant != DEFAULT_TENANT and self._tenants.find(claimed.tenant) is None:
            await self._tenants.catch_up()
            if self._tenants.find(claimed.tenant) is None:
                raise VitascopeError(FailureCode.FORBIDDEN, "The token's tenant is not one of this service.")
        return self._admit(Caller(claimed.tenant, claimed.scopes, f"jwt:{claimed.tenant}:{claimed.subject}"))

    def _admit(self, caller: Caller) -> Caller:
        tenant: Tenant | None = self._tenants.find(caller.tenant)
        is_bound = caller.key is not None  # the settings' key must always open, or nobody could enable a tenant again
        if tenant is not None and tenant.is_disabled and is_bound:
            raise VitascopeError(FailureCode.FORBIDDEN, "The tenant is disabled.")
        return caller


def compute_scope(method: str, path: str) -> Scope:
    """The scope that a request needs. Whatever is not named here belongs to the jobs. Pure."""
    if _is_under(path, _TENANTS):
        return Scope.ADMIN
    if _is_under(path, _WEBHOOKS):
        return Scope.WEBHOOKS
    return Scope.JOBS_READ if method in _SAFE or path == _ESTIMATE else Scope.JOBS_WRITE


def check_scope(caller: Caller, needed: Scope) -> None:
    """Let the request pass if its key allows it.

    Raises:
        VitascopeError: `forbidden`, naming the scope.
    """
    if needed not in caller.scopes:
        raise VitascopeError(FailureCode.FORBIDDEN, f"It lacks the scope {needed}.", param="Authorization")


def _is_under(path: str, root: str) -> bool:
    return path == root or path.startswith(f"{root}/")


def _make_unknown() -> VitascopeError:
    return VitascopeError(FailureCode.UNAUTHENTICATED, "Send `Authorization: Bearer <key>`.", param="Authorization")
