"""Acceptance: from a body to a record that no crash loses, at most one for each Idempotency-Key.

The order is what makes it safe, wherever a process dies in it:

1. the body is checked, so a refusal leaves nothing behind;
2. with a key, everything drawn by chance (id, time, seed) is remembered under it, create-only; not before a lost ledger
   is rebuilt, and with it what the keys stand for;
3. the record's copy goes to the object store;
4. the record is created in the ledger: now the job exists, and the client may have its id.

Whoever comes later with the same key finds what was drawn. If the record is there, it is the answer; if not, the
first request died between 2 and 4 or is still at it, and the later one makes the very same record: of two that
create it one wins, and both answer with it.
"""

import random

from pydantic import JsonValue

from vitascope.admission import Admitted, admit, choose_model, compute_body_digest
from vitascope.catalog import Catalog
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.flow import State
from vitascope.contracts.idempotency import Draw
from vitascope.contracts.ids import make_job_id
from vitascope.contracts.models import ModelEntry
from vitascope.contracts.transitions import accept
from vitascope.ingress.creation import Accepted, Creator
from vitascope.runtime.completeness import Completeness
from vitascope.runtime.job_index import JobIndex
from vitascope.runtime.ports import Clock, Ledger, ObjectStore

SEED_BITS = 53
"""Of a drawn seed: every JSON reader keeps such a number exact."""


class Acceptor:
    """Makes records of bodies."""

    def __init__(
        self,
        catalog: Catalog,
        ledger: Ledger,
        store: ObjectStore,
        jobs: JobIndex,
        *,
        completeness: Completeness,
        clock: Clock,
        rng: random.Random,
        max_queued: int,
    ) -> None:
        self._catalog, self._ledger, self._jobs = catalog, ledger, jobs
        self._creator = Creator(ledger, store, jobs)
        self._completeness = completeness
        self._clock, self._rng, self._max_queued = clock, rng, max_queued

    async def accept(self, tenant: str, body: dict[str, JsonValue], key: str | None) -> Accepted:
        """Accept a job, or find the one that the key stands for.

        Raises:
            VitascopeError: a refusal of admission; `idempotency_conflict`; `queue_full`; the ledger or the store
                cannot be reached, and then the job does not exist, unless the ledger could not even be asked;
                `service_unavailable`, the ledger is being rebuilt, so that it is not known what the key stands for.
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
        return await self._creator.create(record)

    def _draw(self, digest: str) -> Draw:
        now = self._clock.now()
        return Draw(job=make_job_id(now), at=now, seed=self._rng.getrandbits(SEED_BITS), body=digest)

    async def _recall(self, tenant: str, key: str, draw: Draw) -> Draw | None:
        """What an earlier request with the key drew; None if there was none, and then this one's is remembered."""
        await self._completeness.check()
        remembered = await self._ledger.remember(tenant, key, draw.to_bytes())
        if remembered is None:
            return None
        earlier = Draw.model_validate_json(remembered)
        if earlier.body != draw.body:
            raise VitascopeError(FailureCode.IDEMPOTENCY_CONFLICT, param="Idempotency-Key")
        return earlier


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
