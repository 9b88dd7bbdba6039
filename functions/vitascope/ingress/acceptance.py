"""Acceptance: from a body to a record that no crash loses, at most one for each Idempotency-Key.

The order is what makes it safe, wherever a process dies in it:

1. the body is checked, and its prompt read by the screen if there is one, so a refusal leaves nothing behind; then its
   media is fetched, read and stored under the job that may be, and removed if it is not;
2. with a key, everything drawn by chance (id, time, seed) is remembered under it, create-only; not before a lost ledger
   is rebuilt, and with it what the keys stand for, and not before there is room, so that 429 leaves the key free;
3. the record's copy goes to the object store;
4. the record is created in the ledger: now the job exists, and the client may have its id.

Whoever comes later with the same key finds what was drawn. If the record is there, it is the answer; if not, the
first request died between 2 and 4 or is still at it, and the later one makes the very same record: of two that
create it one wins, and both answer with it.
"""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pydantic import JsonValue

from vitascope.admission import Admitted, admit, choose_model, compute_body_digest
from vitascope.catalog import Catalog
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.idempotency import Draw
from vitascope.contracts.ids import make_job_id
from vitascope.contracts.jobs import Reference
from vitascope.contracts.models import ModelEntry
from vitascope.contracts.transitions import accept
from vitascope.ingress.addresses import AddressCheck, check_callback
from vitascope.ingress.creation import Accepted, Creator
from vitascope.ingress.limits import Limits
from vitascope.ingress.references import ReferenceReader
from vitascope.ingress.wishes import PLAIN, Wish, stand_in
from vitascope.runtime.completeness import Completeness
from vitascope.runtime.ports import Clock
from vitascope.screen import PromptScreen, check_prompt

SEED_BITS = 53
"""Of a drawn seed: every JSON reader keeps such a number exact."""


class Acceptor:
    """Makes records of bodies."""

    def __init__(  # noqa: PLR0913 (one for each thing that a request is checked against)
        self,
        catalog: Catalog,
        creator: Creator,
        *,
        completeness: Completeness,
        clock: Clock,
        rng: random.Random,
        limits: Limits,
        screen: PromptScreen | None,
        reader: ReferenceReader,
        addresses: AddressCheck,
    ) -> None:
        self._catalog, self._ledger, self._creator = catalog, creator.ledger, creator
        self._screen, self._reader, self._addresses = screen, reader, addresses
        self._completeness = completeness
        self._clock, self._rng, self._limits = clock, rng, limits

    async def accept(self, tenant: str, body: dict[str, JsonValue], key: str | None, *, wish: Wish = PLAIN) -> Accepted:
        """Accept a job, or find the one that the key stands for.

        Raises:
            VitascopeError: a refusal of admission, of the callback address, or of the media; `prompt_refused`;
                `screen_unavailable`; `idempotency_conflict`; as `Limits.hold`; the ledger or the store cannot be
                reached, and then the job does not exist, unless the ledger could not even be asked;
                `service_unavailable`, the ledger is being rebuilt, so that it is not known what the key stands for.
        """
        entry = choose_model(body, self._catalog.entries)
        draw = self._draw(wish.digest or compute_body_digest(body))
        asked = _Asked(tenant, body, key, entry, wish)
        admitted = await asked.admit(draw, stand_in(wish.sources, entry))
        if key is not None and (known := await self._find_made(tenant, key, draw)) is not None:
            return known
        await check_callback(self._addresses, admitted.admission.callback_url)
        if self._screen is not None:
            await check_prompt(self._screen, admitted.request)
        async with self._limits.hold(tenant, admitted.request.tier, admitted.admission.estimated_gpu_s):
            return await self._make(asked, draw, admitted)

    async def _make(self, asked: "_Asked", draw: Draw, admitted: Admitted) -> Accepted:
        if asked.wish.sources:
            admitted = await self._read_media(asked, draw)
        try:
            earlier = await self._remember(asked.tenant, asked.key, draw) if asked.key is not None else None
            existing = await self._ledger.get(earlier.job) if earlier is not None else None
        except BaseException:
            await self._reader.discard(admitted.request.references)
            raise
        if earlier is not None:
            await self._reader.discard(admitted.request.references)
            if existing is not None:
                return Accepted(existing, is_replay=True)
            draw, admitted = earlier, await self._read_media(asked, earlier)
        kept_days = self._limits.find_kept_days(asked.tenant)
        record = accept(
            draw.job,
            admitted.request,
            admitted.admission.model_copy(update={"kept_days": kept_days}),
            now=draw.at,
            start_deadline=admitted.start_deadline,
        )
        return await self._creator.create(record)  # what it leaves of a failure, the janitor removes

    async def _read_media(self, asked: "_Asked", draw: Draw) -> Admitted:
        """The request as it is admitted with its media, which is stored for the job that was drawn."""
        references = await self._reader.read(asked.wish.sources, tenant=asked.tenant, job=draw.job)
        try:
            return await asked.admit(draw, references)
        except BaseException:
            await self._reader.discard(references)
            raise

    def _draw(self, digest: str) -> Draw:
        now = self._clock.now()
        return Draw(job=make_job_id(now), at=now, seed=self._rng.getrandbits(SEED_BITS), body=digest)

    async def _find_made(self, tenant: str, key: str, draw: Draw) -> Accepted | None:
        """The job that an earlier request with the key made.

        It is asked for before any limit, and ties the key to nothing: a request that a limit refuses may come again
        with another body.
        """
        await self._completeness.check()
        remembered = await self._ledger.recall(tenant, key)
        if remembered is None:
            return None
        existing = await self._ledger.get(_read_draw(remembered, draw.body).job)
        return Accepted(existing, is_replay=True) if existing is not None else None

    async def _remember(self, tenant: str, key: str, draw: Draw) -> Draw | None:
        """What an earlier request with the key drew; None if there was none, and then this one's is remembered."""
        await self._completeness.check()
        remembered = await self._ledger.remember(tenant, key, draw.to_bytes())
        return None if remembered is None else _read_draw(remembered, draw.body)


def _read_draw(remembered: bytes, body: str) -> Draw:
    """What is remembered under a key, if it is for this body."""
    draw = Draw.model_validate_json(remembered)
    if draw.body != body:
        raise VitascopeError(FailureCode.IDEMPOTENCY_CONFLICT, param="Idempotency-Key")
    return draw


@dataclass(frozen=True)
class _Asked:
    """One request."""

    tenant: str
    body: dict[str, JsonValue]
    key: str | None
    entry: ModelEntry
    wish: Wish

    async def admit(self, draw: Draw, references: Sequence[Reference]) -> Admitted:
        """As `admission.admit`; masks take long to check, so that is done beside the event loop."""
        if self.wish.masks:
            return await asyncio.to_thread(self._admit, draw, references)
        return self._admit(draw, references)

    def _admit(self, draw: Draw, references: Sequence[Reference]) -> Admitted:
        admitted = admit(
            self.body,
            self.entry,
            tenant=self.tenant,
            now=draw.at,
            drawn_seed=draw.seed,
            idempotency_key=self.key,
            body_sha256=draw.body,
            references=references,
            masks=self.wish.masks,
            source_job=self.wish.source_job,
            door=self.wish.door,
        )
        shown = {"quality": self.wish.quality, "wants_metrics": self.wish.wants_metrics}
        return replace(admitted, admission=admitted.admission.model_copy(update=shown))
