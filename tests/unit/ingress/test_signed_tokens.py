"""Tokens of an identity provider: whom they stand for, and every way in which one is not valid."""

import base64
import hmac
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from doors import JOBS, PROMPT, World, open_door, read_error
from tenancy import ADMIN_KEY, bearer, make_tenant
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.keys import JOB_SCOPES, Scope
from vitascope.ingress import signed_tokens
from vitascope.ingress.signed_tokens import Claims, SignedTokens, is_signed_token
from vitascope.runtime.settings import JwtSettings

NO_NAME = b'{"alg":"ES256","kid":[7]}'
ISSUER, AUDIENCE = "https://id.example", "vitascope"
OWN, OTHER = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())


def publish(path: Path, **keys: ec.EllipticCurvePrivateKey) -> Path:
    """The provider's document."""
    path.write_text(json.dumps(make_keys(**keys)))
    return path


def make_keys(**keys: ec.EllipticCurvePrivateKey) -> dict[str, Any]:
    algorithm = jwt.algorithms.ECAlgorithm(jwt.algorithms.ECAlgorithm.SHA256)
    rows = [algorithm.to_jwk(key.public_key(), as_dict=True) | {"kid": kid, "use": "sig"} for kid, key in keys.items()]
    return {"keys": rows}


def sign(
    key: Any = OWN, *, kid: str | None = "one", algorithm: str = "ES256", without: str = "", **changes: Any
) -> str:
    """A token that is valid unless something is changed."""
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ada", "tenant": "acme", "exp": time.time() + 60} | changes
    claims.pop(without, None)
    return jwt.encode(claims, key, algorithm=algorithm, headers={"kid": kid} if kid is not None else None)


def _encode(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


@pytest.fixture
def settings(tmp_path: Path) -> JwtSettings:
    return JwtSettings(issuer=ISSUER, audience=AUDIENCE, jwks_file=publish(tmp_path / "keys.json", one=OWN))


@pytest.mark.parametrize(
    ("scopes", "claims"),
    [
        pytest.param(JOB_SCOPES, {}, id="none"),
        pytest.param({Scope.JOBS_READ}, {"scope": "openid jobs:read"}, id="text"),
        pytest.param({Scope.ADMIN, Scope.WEBHOOKS}, {"scope": ["admin", "webhooks", 7, "x"]}, id="list"),
        pytest.param(set(), {"scope": "openid profile"}, id="none-of-ours"),
        pytest.param(set(), {"scope": 7}, id="no-text"),
    ],
)
async def test_a_valid_token_says_who(settings: JwtSettings, scopes: set[Scope], claims: dict[str, Any]) -> None:
    """Tenant, subject, and what may be done: never more than the provider says."""
    assert Claims("acme", "ada", frozenset(scopes)) == await SignedTokens(settings).read(sign(**claims))


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: sign(OTHER), id="another-key"),
        pytest.param(lambda: sign(kid="two"), id="unknown-key"),
        pytest.param(lambda: sign(exp=time.time() - 60), id="too-old"),
        pytest.param(lambda: sign(nbf=time.time() + 60), id="too-young"),
        pytest.param(lambda: sign(iss="https://evil.example"), id="issuer"),
        pytest.param(lambda: sign(aud="another-service"), id="audience"),
        pytest.param(lambda: sign(without="exp"), id="endless"),
        pytest.param(lambda: sign(without="aud"), id="for-nobody"),
        pytest.param(lambda: sign(without="iss"), id="from-nobody"),
        pytest.param(lambda: sign(without="tenant"), id="no-tenant"),
        pytest.param(lambda: sign(tenant="../x"), id="no-tenants-name"),
        pytest.param(lambda: sign(tenant="acme\n"), id="line-feed"),
        pytest.param(lambda: sign(tenant=["acme"]), id="list-of-tenants"),
        pytest.param(lambda: sign("x" * 32, algorithm="HS256"), id="shared-secret"),
        pytest.param(lambda: sign("", algorithm="none"), id="unsigned"),
        pytest.param(lambda: sign()[:-4] + "AAAA", id="changed-signature"),
        pytest.param(lambda: "a.b.c", id="no-token"),
        pytest.param(lambda: f"{_encode(b'[' * 30_000)}.e30.AA", id="nested"),
        pytest.param(lambda: f"{_encode(NO_NAME)}.e30.AA", id="kid-is-no-text"),
    ],
)
async def test_any_other_token_is_none(settings: JwtSettings, make: Callable[[], str]) -> None:
    """Whatever is wrong with it; made now, so that the time it names is still to come."""
    token = make()
    assert is_signed_token(token) or token.endswith(".")
    assert await SignedTokens(settings).read(token) is None


async def test_a_public_key_is_no_shared_secret(settings: JwtSettings) -> None:
    """A token signed with the public key's text as an HMAC secret (algorithm confusion) is not valid."""
    assert settings.jwks_file is not None
    assert await SignedTokens(settings).read(_forge(settings.jwks_file.read_text())) is None


def _forge(secret: str) -> str:
    """By hand: the library refuses to sign so."""
    claims = {"iss": ISSUER, "aud": AUDIENCE, "tenant": "acme", "exp": time.time() + 60}
    parts = [_encode(json.dumps(part).encode()) for part in ({"alg": "HS256", "kid": "one"}, claims)]
    return ".".join((*parts, _encode(hmac.digest(secret.encode(), ".".join(parts).encode(), "sha256"))))


async def test_the_only_key_needs_no_name(settings: JwtSettings, tmp_path: Path) -> None:
    """Of several one must be named."""
    assert await SignedTokens(settings).read(sign(kid=None)) is not None
    publish(tmp_path / "keys.json", one=OWN, two=OTHER)
    assert await SignedTokens(settings).read(sign(kid=None)) is None


async def test_a_new_key_is_read(settings: JwtSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a token names it; not more often than so, whoever sends how many."""
    monkeypatch.setattr(signed_tokens, "RENEW_MIN_S", 0.0)
    tokens = SignedTokens(settings)
    assert await tokens.read(sign()) is not None
    publish(tmp_path / "keys.json", two=OTHER)
    assert await tokens.read(sign(OTHER, kid="two")) is not None
    assert await tokens.read(sign()) is None
    monkeypatch.setattr(signed_tokens, "RENEW_MIN_S", 3600.0)
    publish(tmp_path / "keys.json", one=OWN)
    assert await tokens.read(sign()) is None


async def test_known_keys_outlive_a_provider_that_is_away(
    settings: JwtSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who has none yet says that it cannot tell."""
    for name in ("RENEW_S", "RENEW_MIN_S"):
        monkeypatch.setattr(signed_tokens, name, 0.0)
    tokens = SignedTokens(settings)
    assert await tokens.read(sign()) is not None
    for content in ("", "{}", "[]", '{"keys": [{}]}', "x" * (signed_tokens.KEYS_MAX_BYTES + 1)):
        (tmp_path / "keys.json").write_text(content)
        assert await tokens.read(sign()) is not None
    with pytest.raises(VitascopeError) as caught:
        await SignedTokens(settings).read(sign())
    assert FailureCode.SERVICE_UNAVAILABLE is caught.value.code


@contextmanager
def provider(status: int, headers: dict[str, str], content: bytes) -> Iterator[tuple[str, list[str]]]:
    """A provider that gives every question the same answer: its address, and the paths that were asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    serving = threading.Thread(target=server.serve_forever, args=(0.01,))
    serving.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        serving.join()
        server.server_close()


async def test_keys_are_read_from_an_address() -> None:
    """Once for many tokens."""
    with provider(200, {}, json.dumps(make_keys(one=OWN)).encode()) as (url, asked):
        tokens = SignedTokens(JwtSettings(issuer=ISSUER, audience=AUDIENCE, jwks_url=f"{url}/jwks"))
        assert [True] * 3 == [await tokens.read(sign()) is not None for _ in range(3)]
    assert ["/jwks"] == asked


async def test_an_address_that_leads_elsewhere_is_not_followed() -> None:
    """The keys come from where the settings say, or from nowhere."""
    with provider(302, {"Location": "/other"}, b"") as (url, asked):
        tokens = SignedTokens(JwtSettings(issuer=ISSUER, audience=AUDIENCE, jwks_url=f"{url}/jwks"))
        with pytest.raises(VitascopeError):
            await tokens.read(sign())
    assert ["/jwks"] == asked


@pytest.mark.parametrize(
    "places",
    [
        pytest.param({}, id="none"),
        pytest.param({"jwks_url": "https://id.example/k", "jwks_file": "k.json"}, id="both"),
        pytest.param({"jwks_url": "file:///etc/passwd"}, id="no-http"),
    ],
)
def test_the_settings_name_one_place(places: dict[str, Any]) -> None:
    """Of the provider's keys."""
    with pytest.raises(ValueError, match=r"JWKS_URL|pattern"):
        JwtSettings(issuer=ISSUER, audience=AUDIENCE, **places)


async def test_a_token_opens_the_door(world: World, settings: JwtSettings) -> None:
    """For the tenant that it names, if there is one; with the scopes that it has; others' jobs stay out of sight."""
    async with open_door(world.make_app(api_key=ADMIN_KEY, jwt=settings)) as client:
        read_error(await _list(client, sign()), 403, "forbidden")
        key = await make_tenant(client, "acme")
        mine = (await client.post(JOBS, json=PROMPT, headers=bearer(key))).json()["id"]
        assert [mine] == [job["id"] for job in (await _list(client, sign())).json()["data"]]
        assert [] == (await _list(client, sign(tenant="default"))).json()["data"]
        read_error(await _list(client, sign(scope="webhooks")), 403, "forbidden")
        read_error(await _list(client, sign(OTHER)), 401, "unauthenticated")


async def test_with_a_provider_nobody_is_anonymous(world: World, settings: JwtSettings) -> None:
    """Also where there is no key in the settings."""
    async with open_door(world.make_app(jwt=settings)) as client:
        read_error(await client.get(JOBS), 401, "unauthenticated")


async def _list(client: httpx.AsyncClient, token: str) -> httpx.Response:
    return await client.get(JOBS, headers=bearer(token))
