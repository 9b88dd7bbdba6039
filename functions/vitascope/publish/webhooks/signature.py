"""Signatures of Standard Webhooks, version `v1`: HMAC-SHA256 over id, timestamp and body.

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

import base64
import hashlib
import hmac
from collections.abc import Sequence
from datetime import datetime

from vitascope.contracts.webhooks import SECRET_PREFIX

USER_AGENT = "vitascope-webhooks/1"


def make_headers(secrets: Sequence[str], message_id: str, body: bytes, now: datetime) -> dict[str, str]:
    """The headers of one try: signed now with every secret, so that a receiver may know either of two."""
    assert secrets, "nothing is sent that nobody can verify"
    timestamp = str(int(now.timestamp()))
    return {
        "content-type": "application/json",
        "user-agent": USER_AGENT,
        "webhook-id": message_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": " ".join(compute_signature(secret, message_id, timestamp, body) for secret in secrets),
    }


def compute_signature(secret: str, message_id: str, timestamp: str, body: bytes) -> str:
    """One signature: `v1,` and base64. `timestamp` is in whole seconds since 1970."""
    key = base64.b64decode(secret.removeprefix(SECRET_PREFIX))
    digest = hmac.digest(key, f"{message_id}.{timestamp}.".encode() + body, hashlib.sha256)
    return f"v1,{base64.b64encode(digest).decode()}"
