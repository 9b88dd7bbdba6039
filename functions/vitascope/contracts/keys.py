"""API keys: what one looks like, what it allows, and what is kept of it. The key itself is never kept."""

import base64
import hashlib
from datetime import datetime
from enum import StrEnum

from pydantic import AwareDatetime, Field

from vitascope.contracts.frozen import Stored
from vitascope.contracts.jobs import Sha256

KEY_PREFIX = "vsk_"
"""How every key begins, so that scanners of leaked secrets can find one."""
KEY_ID_PATTERN = r"^vsk_[a-z2-7]{8}$"
VISIBLE_BYTES = 5
"""Eight characters of base32: the part of a key that may be shown."""
SECRET_BYTES = 32
"""As many as the digest has: more would not make it harder to guess."""
MAX_LABEL_CHARACTERS = 64


class Scope(StrEnum):
    """What a key allows."""

    JOBS_READ = "jobs:read"
    JOBS_WRITE = "jobs:write"
    WEBHOOKS = "webhooks"
    ADMIN = "admin"
    """The tenants and keys of the whole service; the jobs of others stay out of sight all the same."""


ALL_SCOPES = frozenset(Scope)
JOB_SCOPES = frozenset({Scope.JOBS_READ, Scope.JOBS_WRITE})
"""What a key has if nothing else is asked for."""


class ApiKey(Stored):
    """What is kept of a key.

    A plain digest is enough: a key has 256 drawn bits, so there is nothing to guess that a slow hash could make dearer.
    """

    id: str = Field(pattern=KEY_ID_PATTERN, description="the visible part of the key, with which it begins")
    sha256: Sha256
    scopes: frozenset[Scope]
    label: str = Field("", max_length=MAX_LABEL_CHARACTERS)
    created: AwareDatetime
    expires: AwareDatetime | None = None

    def is_valid(self, now: datetime) -> bool:
        """Whether the key is still taken."""
        return self.expires is None or now < self.expires


def compose_key(visible: bytes, secret: bytes) -> str:
    """A key of drawn bytes: `vsk_`, eight visible characters, `_`, and the secret in base32.

    Args:
        visible: `VISIBLE_BYTES` drawn bytes.
        secret: `SECRET_BYTES` drawn bytes.
    """
    assert len(visible) == VISIBLE_BYTES, "the visible part is eight characters"
    assert len(secret) == SECRET_BYTES, "a short secret could be guessed"
    return f"{KEY_PREFIX}{_encode(visible)}_{_encode(secret)}"


def read_key_id(key: str) -> str:
    """The visible part of a key."""
    return key[: len(KEY_PREFIX) + 8]


def compute_key_digest(key: str) -> str:
    """What a key is known by: SHA-256 of its text, hexadecimal."""
    return hashlib.sha256(key.encode()).hexdigest()


def _encode(drawn: bytes) -> str:
    return base64.b32encode(drawn).decode().lower().rstrip("=")
