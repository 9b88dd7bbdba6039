"""Signed tokens (JWT, RFC 7519) of an identity provider, checked against its published keys (JWKS, RFC 7517)."""

import asyncio
import json
import re
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message
from http.client import HTTPException
from typing import IO, Any

import jwt
import structlog

from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.ids import TOKEN_PATTERN
from vitascope.contracts.keys import JOB_SCOPES, Scope
from vitascope.runtime.settings import JwtSettings

ALGORITHMS = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
)  # fmt: skip
"""Signatures that only the provider can make: never `none`, and no shared secrets."""
RENEW_S = 600.0
"""Keys are read anew when they are so old: a key that the provider has withdrawn is taken so much longer."""
RENEW_MIN_S = 30.0
"""Tokens of unknown keys have them read anew, but not more often, whoever sends how many."""
FETCH_TIMEOUT_S = 10.0
KEYS_MAX_BYTES = 1024 * 1024
MAX_SUBJECT_CHARACTERS = 128

_SIGNED = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Claims:
    """What a valid token says."""

    tenant: str
    subject: str
    scopes: frozenset[Scope]


def is_signed_token(token: str) -> bool:
    """Whether the text has the shape of a signed token."""
    return _SIGNED.fullmatch(token) is not None


class SignedTokens:
    """Reads the tokens of one provider."""

    def __init__(self, settings: JwtSettings) -> None:
        self._settings = settings
        self._keys: dict[str | None, jwt.PyJWK] = {}
        self._read_at = -RENEW_S
        self._tried_at = -RENEW_MIN_S
        self._renewing = asyncio.Lock()

    async def read(self, token: str) -> Claims | None:
        """What the token says; None if it is not valid: wrongly signed, too old or too young, or for somebody else.

        Raises:
            VitascopeError: `service_unavailable`, the provider's keys cannot be had.
        """
        own = self._settings
        try:
            kid = jwt.get_unverified_header(token).get("kid")
            key = await self._find_key(kid)
            if key is None:
                return None
            claims = jwt.decode(
                token, key, algorithms=list(ALGORITHMS), issuer=own.issuer, audience=own.audience,
                leeway=own.leeway_s, options={"require": ["exp", "iss", "aud"]},
            )  # fmt: skip
        except (jwt.PyJWTError, RecursionError) as error:  # the library does not bound how deep a header may be nested
            log.info("token refused", reason=type(error).__name__)
            return None
        return _read_claims(claims, own)

    async def _find_key(self, kid: str | None) -> jwt.PyJWK | None:
        """The key of that id; the only key, if the token names none."""
        async with self._renewing:
            now_s = asyncio.get_running_loop().time()
            is_due = now_s - self._read_at >= RENEW_S or self._pick(kid) is None
            if is_due and now_s - self._tried_at >= RENEW_MIN_S:
                self._tried_at = now_s
                await self._renew()
        if not self._keys:
            raise VitascopeError(FailureCode.SERVICE_UNAVAILABLE, "The identity provider's keys cannot be read.")
        return self._pick(kid)

    def _pick(self, kid: str | None) -> jwt.PyJWK | None:
        if kid is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        return self._keys.get(kid)

    async def _renew(self) -> None:
        """Read the keys; if that fails those that are known stay, since the provider may be away for a while."""
        try:
            document = json.loads(await asyncio.to_thread(_load_keys, self._settings))
            keys = {key.key_id: key for key in jwt.PyJWKSet.from_dict(document).keys}
        except (OSError, HTTPException, ValueError, TypeError, AttributeError, jwt.PyJWTError) as error:
            log.warning("the identity provider's keys cannot be read", error=f"{type(error).__name__}: {error}")
            return
        self._keys, self._read_at = keys, asyncio.get_running_loop().time()


def _read_claims(claims: Mapping[str, Any], settings: JwtSettings) -> Claims | None:
    tenant = claims.get(settings.tenant_claim)
    if not isinstance(tenant, str) or re.fullmatch(TOKEN_PATTERN, tenant) is None or tenant.endswith("\n"):
        log.info("token refused", reason="no tenant", claim=settings.tenant_claim)
        return None
    subject = str(claims.get("sub", ""))[:MAX_SUBJECT_CHARACTERS]
    return Claims(tenant, subject, _read_scopes(claims.get(settings.scope_claim)))


def _read_scopes(claim: object) -> frozenset[Scope]:
    """The scopes of ours among those of the claim, text or list; those of a usual key if there is no claim."""
    if claim is None:
        return JOB_SCOPES
    words = claim.split() if isinstance(claim, str) else claim if isinstance(claim, list) else []
    return frozenset(Scope(word) for word in words if word in set(Scope))


def _load_keys(settings: JwtSettings) -> bytes:
    """The provider's document; blocks for at most about `FETCH_TIMEOUT_S`."""
    if settings.jwks_file is not None:
        with settings.jwks_file.open("rb") as file:
            return _read_bounded(file)
    assert settings.jwks_url is not None, "the settings name a file or an address"
    opener = urllib.request.build_opener(_Straight)
    with opener.open(settings.jwks_url, timeout=FETCH_TIMEOUT_S) as answer:
        return _read_bounded(answer)


def _read_bounded(source: IO[bytes]) -> bytes:
    content = source.read(KEYS_MAX_BYTES + 1)
    if len(content) > KEYS_MAX_BYTES:
        raise ValueError(f"more than {KEYS_MAX_BYTES} bytes")
    return content


class _Straight(urllib.request.HTTPRedirectHandler):
    """Follows nobody: who can redirect the address of the keys could name keys of their own."""

    def redirect_request(  # noqa: PLR0917 (the signature of the standard library)
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> None:
        """Refuse; the answer then counts as an error of HTTP."""
