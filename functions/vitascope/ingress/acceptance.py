"""Acceptance: from a body to a record that no crash loses, at most one for each Idempotency-Key.

The order is what makes it safe, wherever a process dies in it:

1. the body is checked, so a refusal leaves nothing behind;
2. with a key, everything drawn by chance (id, time, seed) is remembered under it, create-only;
3. the record's copy goes to the object store;
4. the record is created in the ledger: now the job exists, and the client may have its id.

Whoever comes later with the same key finds what was drawn. If the record is there, it is the answer; if not, the
first request died between 2 and 4 or is still at it, and the later one makes the very same record: of two that
create it one wins, and both answer with it.
"""

import random
from contextlib import suppress
from dataclasses import dataclass

import structlog
from pydantic import AwareDatetime, JsonValue

from vitascope.admission import Admitted, admit, choose_model, compute_body_digest
from vitascope.catalog import Catalog
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.flow import State
from vitascope.contracts.frozen import Stored
from vitascope.contracts.ids import JobId, make_job_id
from vitascope.contracts.jobs import JobRecord, Sha256
from vitascope.contracts.models import ModelEntry
from vitascope.contracts.objects import record_key
from vitascope.contracts.transitions import accept
from vitascope.runtime.job_index import JobIndex
from vitascope.runtime.ports import Clock, Conflict, Ledger, ObjectStore, Stamped

SEED_BITS = 53
"""Of a drawn seed: every JSON reader keeps such a number exact."""

log = structlog.get_logger(__name__)


class Draw(Stored):
    """What acceptance draws, and the digest of the body that it was drawn for."""

    job: JobId
    at: AwareDatetime
    seed: int
    body: Sha256


@dataclass(frozen=True)
class Accepted:
    """The job, and whether an earlier request with the same key had made it already."""

    stamped: Stamped
    is_replay: bool


class Acceptor:
    """Makes records of bodies."""

    def __init__(
        self,
        catalog: Catalog,
        ledger: Ledger,
        store: ObjectStore,
        jobs: JobIndex,
        *,
        clock: Clock,
        rng: random.Random,
        max_queued: int,
    ) -> None:
        self._catalog, self._ledger, self._store, self._jobs = catalog, ledger, store, jobs
        self._clock, self._rng, self._max_queued = clock, rng, max_queued

    async def accept(self, tenant: str, body: dict[str, JsonValue], key: str | None) -> Accepted:
        """Accept a job, or find the one that the key stands for.

        Raises:
            VitascopeError: a refusal of admission; `idempotency_conflict`; `queue_full`; the ledger or the store
                cannot be reached, and then the job does not exist, unless the ledger could not even be asked.
        """
        entry = choose_model(body, self._catalog.entries)
        draw = self._draw(compute_body_digest(body))
        admitted = _admit(body, entry, draw, tenant=tenant, key=key)
        earlier = await self._recall(tenant, key, draw) if key is not None else None
        if earlier is not None:
            existing = await self._ledger.get(earlier.job)
            if existing is not None:
                return Accepted(existing, is_replay=True)
            draw, admitted = earlier, _admit(body, entry, earlier, tenant=tenant, key=key)
        if self._jobs.count(State.QUEUED) >= self._max_queued:
            raise VitascopeError(FailureCode.QUEUE_FULL, f"{self._max_queued} jobs wait.")
        record = accept(
            draw.job,
            admitted.request,
            admitted.admission,
            now=draw.at,
            start_deadline=admitted.start_deadline,
        )
        return await self._create(record)

    def _draw(self, digest: str) -> Draw:
        now = self._clock.now()
        return Draw(job=make_job_id(now), at=now, seed=self._rng.getrandbits(SEED_BITS), body=digest)

    async def _recall(self, tenant: str, key: str, draw: Draw) -> Draw | None:
        """What an earlier request with the key drew; None if there was none, and then this one's is remembered."""
        remembered = await self._ledger.remember(tenant, key, draw.model_dump_json().encode())
        if remembered is None:
            return None
        earlier = Draw.model_validate_json(remembered)
        if earlier.body != draw.body:
            raise VitascopeError(FailureCode.IDEMPOTENCY_CONFLICT, param="Idempotency-Key")
        return earlier

    async def _create(self, record: JobRecord) -> Accepted:
        try:
            await self._store.put(record_key(record), record.to_bytes(), "application/json")
        except VitascopeError:
            await self._remove_copy(record)
            raise
        try:
            created = Accepted(await self._ledger.create(record), is_replay=False)
        except Conflict:
            created = Accepted(await self._find_twin(record), is_replay=True)
        except VitascopeError:
            created = Accepted(await self._find_created(record), is_replay=False)
        self._jobs.apply(created.stamped)
        return created

    async def _find_twin(self, record: JobRecord) -> Stamped:
        """The record that a request with the same key made first."""
        stamped = await self._ledger.get(record.id)
        if stamped is None:
            raise VitascopeError(FailureCode.SERVICE_UNAVAILABLE, "The job was made and removed at once.")
        if stamped.record.is_terminal:  # it ended while we stored our copy, which says that it is queued
            await self._store.put(record_key(record), stamped.record.to_bytes(), "application/json")
        return stamped

    async def _find_created(self, record: JobRecord) -> Stamped:
        """After a create whose answer did not come: the record if it is there, else the error and no copy.

        If the ledger cannot be asked, the copy stays: with a key the client's next try finds out.
        """
        stamped = await self._ledger.get(record.id)
        if stamped is None:
            await self._remove_copy(record)
            raise VitascopeError(FailureCode.BUS_UNAVAILABLE, "The record was not stored.")
        return stamped

    async def _remove_copy(self, record: JobRecord) -> None:
        with suppress(VitascopeError):  # the store is away, which is what the caller is about to say
            await self._store.remove([record_key(record)])


def _admit(body: dict[str, JsonValue], entry: ModelEntry, draw: Draw, *, tenant: str, key: str | None) -> Admitted:
    return admit(
        body,
        entry,
        tenant=tenant,
        now=draw.at,
        drawn_seed=draw.seed,
        idempotency_key=key,
        body_sha256=draw.body,
    )
