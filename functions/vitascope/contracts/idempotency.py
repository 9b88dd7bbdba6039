"""Idempotency: what acceptance draws by chance and remembers under a client's key."""

from pydantic import AwareDatetime

from vitascope.contracts.frozen import Stored
from vitascope.contracts.ids import JobId
from vitascope.contracts.jobs import JobRecord, Sha256


class Draw(Stored):
    """What acceptance draws, and the digest of the body that it was drawn for."""

    job: JobId
    at: AwareDatetime
    seed: int
    body: Sha256

    def to_bytes(self) -> bytes:
        """The form that is remembered: JSON, UTF-8."""
        return self.model_dump_json().encode()


def recover_draw(record: JobRecord) -> Draw | None:
    """What was drawn for a record, from the record itself; None if its request had no key.

    `seed` is the record's. Where the client had chosen it, what was drawn instead is not known and not needed.
    """
    body = record.admission.body_sha256
    if record.admission.idempotency_key is None or body is None:
        return None
    return Draw(job=record.id, at=record.times.created, seed=record.request.seed, body=body)
