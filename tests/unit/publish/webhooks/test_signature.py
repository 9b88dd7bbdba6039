"""Signatures: the reference library of Standard Webhooks accepts what we send."""

from datetime import UTC, datetime

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from hooks import delivery, subscription
from records import NOW
from vitascope.contracts.webhooks import SECRET_BYTES, make_secret
from vitascope.publish.webhooks.signature import compute_signature, make_headers

OLD, NEW = (make_secret(letter * SECRET_BYTES, NOW).secret for letter in (b"o", b"n"))


def verify(secret: str, body: bytes, headers: dict[str, str]) -> dict[str, object]:
    """As a receiver does; raises if the message is not to be trusted."""
    verified: dict[str, object] = Webhook(secret).verify(body, headers)
    return verified


def test_example_of_the_reference_implementation() -> None:
    """The value that the tests of the standard's libraries have."""
    body = b'{"test": 2432232314}'
    signature = compute_signature(
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", body
    )
    assert "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" == signature


@pytest.mark.parametrize("secret", [OLD, NEW], ids=["old secret", "new secret"])
def test_either_secret_verifies(secret: str) -> None:
    """While both sign, a receiver may know either."""
    row = delivery(subscription().id)
    body = row.body.encode()
    headers = make_headers((NEW, OLD), row.event_id, body, datetime.now(UTC))
    assert "job.succeeded" == verify(secret, body, headers)["type"]


def test_another_body_does_not_verify() -> None:
    """Nor does another secret."""
    body = b'{"a":1}'
    headers = make_headers((NEW,), "vj_1:1:succeeded", body, datetime.now(UTC))
    with pytest.raises(WebhookVerificationError):
        verify(NEW, b'{"a":2}', headers)
    with pytest.raises(WebhookVerificationError):
        verify(OLD, body, headers)
