"""Checkpoints: uploaded beside the next step, one at a time; a newer one replaces an older one only once it is safe."""

import asyncio
import hashlib
import json
from collections.abc import Callable

import structlog

from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.jobs import Checkpoint, Engine, JobRecord
from vitascope.contracts.objects import checkpoint_key
from vitascope.contracts.transitions import TransitionError, drop_checkpoint, note_checkpoint
from vitascope.runtime.advance import advance
from vitascope.runtime.copies import keep_copy
from vitascope.runtime.leftovers import list_referenced
from vitascope.runtime.ports import Ledger, ObjectStore
from vitascope.runtime.tenure import Halt, Tenure

CONTENT_TYPE = "application/vnd.safetensors"
UNUSABLE = frozenset({FailureCode.OBJECT_MISSING, FailureCode.OBJECT_CORRUPT})

log = structlog.get_logger(__name__)


def compute_fingerprint(engine: Engine) -> str:
    """Equal for engines that resume each other's checkpoints bit for bit: model, versions, dtype, device, degree."""
    return hashlib.sha256(json.dumps(engine.model_dump(mode="json"), sort_keys=True).encode()).hexdigest()


class CheckpointSaver:
    """Saves the checkpoints of one run. `offer` is for the sampler's thread, all else for the event loop's.

    Upload first, record second, remove the older one last: whenever the process ends, the record points to a whole
    checkpoint. An upload that no record came to point to is removed with the next one that does.
    """

    def __init__(self, *, ledger: Ledger, store: ObjectStore, tenure: Tenure, fingerprint: str) -> None:
        self._ledger, self._store, self._tenure, self._fingerprint = ledger, store, tenure, fingerprint
        self._loop = asyncio.get_running_loop()
        self._upload: asyncio.Task[None] | None = None
        self._stored = set(_key_of(tenure.record))

    def offer(self, step: int, snapshot: Callable[[], bytes]) -> None:
        """Take a snapshot now and upload it later.

        Blocks while the one before is still being uploaded, so that never more than one waits in memory; takes none
        if the work has to stop meanwhile.
        """
        asyncio.run_coroutine_threadsafe(self._wait_for_room(), self._loop).result()
        if not self._tenure.is_halted():
            self._loop.call_soon_threadsafe(self._begin, step, snapshot())

    async def settle(self) -> None:
        """Wait until no upload is in flight."""
        if self._upload is not None:
            await self._upload

    async def save(self, step: int, blob: bytes) -> None:
        """Upload a checkpoint, record it, remove the one before it.

        One that cannot be saved costs nothing now: the one before it stays valid. If the record refuses it, it is no
        longer ours, and the work is halted.
        """
        work = self._tenure.work
        try:
            checkpoint = await self.upload(step, blob)
            stamped = await advance(
                self._ledger, work.job, lambda record: note_checkpoint(record, work.attempt, checkpoint)
            )
            self._tenure.see(stamped)
            await self.tidy(stamped.record)
        except TransitionError:
            self._tenure.order(Halt.STALE)
            await self.discard()
        except VitascopeError as error:
            log.warning("checkpoint not saved", job=work.job, attempt=work.attempt, step=step, error=str(error))

    async def upload(self, step: int, blob: bytes) -> Checkpoint:
        """Store a checkpoint that the caller records, and then has `tidy` know, or `discard`.

        Raises:
            VitascopeError: the store did not take it.
        """
        key = checkpoint_key(self._tenure.record, self._tenure.work.attempt, step)
        self._stored.add(key)
        reference = await self._store.put(key, blob, CONTENT_TYPE)
        return Checkpoint(object=reference, step=step, fingerprint=self._fingerprint)

    async def tidy(self, record: JobRecord) -> None:
        """Remove the checkpoints of this run, and the one it began with, that the newest record does not point to."""
        unwanted = self._stored - list_referenced(record)
        if not unwanted:
            return
        try:
            await keep_copy(self._ledger, self._store, record)
            await self._store.remove(sorted(unwanted))
        except VitascopeError as error:
            log.warning("older checkpoint stays for now", job=record.id, error=str(error))
        else:
            self._stored -= unwanted

    async def discard(self) -> None:
        """As `tidy`, after the record has refused what was uploaded."""
        job = self._tenure.work.job
        try:
            current = await self._ledger.get(job)
        except VitascopeError as error:
            log.warning("refused checkpoint stays for now", job=job, error=str(error))
            return
        if current is not None:
            await self.tidy(current.record)

    async def _wait_for_room(self) -> None:
        if self._upload is None or self._upload.done():
            return
        halted = asyncio.create_task(self._tenure.halted.wait(), name=f"halt of {self._tenure.work.job}")
        try:
            await asyncio.wait({self._upload, halted}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            halted.cancel()

    def _begin(self, step: int, blob: bytes) -> None:
        assert self._upload is None or self._upload.done(), "one upload in flight"
        self._upload = asyncio.create_task(self.save(step, blob), name=f"checkpoint of {self._tenure.work.job}")


async def load_checkpoint(ledger: Ledger, store: ObjectStore, tenure: Tenure, fingerprint: str) -> bytes | None:
    """The checkpoint to resume from, if the record has a usable one; else the record says why it was dropped.

    The rule for a checkpoint of another engine (model, versions, dtype, device, degree or sampler differ): it is not
    resumed, since the frames would be neither engine's. The job starts from its first step with the engine at hand.

    Raises:
        StaleAttempt: the record has moved on.
        VitascopeError: the store or the ledger cannot be reached.
    """
    checkpoint = tenure.record.run.checkpoint
    if checkpoint is None:
        return None
    if checkpoint.fingerprint != fingerprint:
        await forget_checkpoint(ledger, tenure, "the checkpoint was made by another engine")
        return None
    try:
        return await store.get(checkpoint.object)
    except VitascopeError as error:
        if error.code not in UNUSABLE:
            raise
        await forget_checkpoint(ledger, tenure, f"the checkpoint is unusable: {error.code}")
        return None


async def forget_checkpoint(ledger: Ledger, tenure: Tenure, why: str) -> None:
    """Have the job start from its first step, and the record say why. The object goes with the next checkpoint.

    Raises:
        StaleAttempt: the record has moved on.
    """
    work = tenure.work
    log.warning("checkpoint dropped", job=work.job, stage=work.stage, attempt=work.attempt, why=why)
    reason = f"{why}, so the job starts from its first step"
    tenure.see(await advance(ledger, work.job, lambda record: drop_checkpoint(record, work.attempt, reason)))


def _key_of(record: JobRecord) -> list[str]:
    return [record.run.checkpoint.object.key] if record.run.checkpoint else []
