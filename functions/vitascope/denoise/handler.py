"""Noise to latents: one job at a time in the sampler, while the one before is still being handed on."""

import asyncio
import time
from collections.abc import Awaitable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import ClassVar

import structlog

from vitascope.contracts.events import WorkItem, make_work_item
from vitascope.contracts.failures import VitascopeError
from vitascope.contracts.flow import Stage
from vitascope.contracts.jobs import Engine, JobRecord
from vitascope.contracts.objects import ObjectClass, job_prefix, latents_key
from vitascope.contracts.subjects import work_subject
from vitascope.contracts.transitions import StaleAttempt, finish_denoise, requeue
from vitascope.denoise.checkpoint import CheckpointSaver, compute_fingerprint, forget_checkpoint, load_checkpoint
from vitascope.denoise.denoiser import CheckpointUnfit, Denoiser, Stopped
from vitascope.denoise.group import GroupHeartbeat
from vitascope.denoise.steps import LastState, StepBoundary
from vitascope.runtime.advance import advance
from vitascope.runtime.beside import beside, run_to_end
from vitascope.runtime.leftovers import remove_leftovers, try_remove_objects
from vitascope.runtime.persist import persist
from vitascope.runtime.ports import Bus, Clock, Ledger, ObjectStore
from vitascope.runtime.progress import ProgressFeed
from vitascope.runtime.settings import DenoiseSettings
from vitascope.runtime.stage import Pulse
from vitascope.runtime.tenure import Halt, Tenure, Tenures, has_finished, load_record

CONTENT_TYPE = "application/vnd.safetensors"
MADE = (ObjectClass.CHECKPOINTS, ObjectClass.LATENTS)

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Sampled:
    """What the sampler made of a job, and how long it was busy with it."""

    blob: bytes
    engine: Engine
    seconds: float
    first_step: datetime | None


@dataclass(kw_only=True)
class DenoiseHandler:
    """Works on the events of one group.

    May be given two jobs at once: the sampler takes one at a time, and takes the next while the latents of the one
    before are uploaded, recorded and announced.

    Attributes:
        ledger: the ledger.
        bus: the bus.
        store: the object store.
        clock: the time.
        denoiser: the engine.
        group: the group's row, kept alive by whoever owns this handler.
        settings: of this group.
        sampler: the one thread in which the denoiser runs, and in which it was loaded.
    """

    ledger: Ledger
    bus: Bus
    store: ObjectStore
    clock: Clock
    denoiser: Denoiser
    group: GroupHeartbeat
    settings: DenoiseSettings
    sampler: Executor
    stage: ClassVar[Stage] = Stage.DENOISE
    _sampler_free: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    _tenures: Tenures = field(init=False)

    def __post_init__(self) -> None:
        self._tenures = Tenures(self.ledger)

    async def handle(self, work: WorkItem, pulse: Pulse) -> None:
        """Denoise a job and hand its latents on; see `StageHandler`.

        Drained, it puts the job back into the queue with the newest state as its checkpoint, which is its end, too.
        """
        try:
            record = await load_record(self.ledger, work)
            if has_finished(record, work):
                await self._announce(record)
                return
            async with self._tenures.hold(work, record) as tenure:
                try:
                    await self._work(tenure, pulse)
                finally:
                    self.group.handed_on(work.job)
        except StaleAttempt:
            await remove_leftovers(self.ledger, self.store, work, MADE)
            raise

    async def drain(self) -> None:
        """Stop at the next step, keep its state, and put the job back into the queue."""
        self.group.drain()
        self._tenures.drain()

    async def _work(self, tenure: Tenure, pulse: Pulse) -> None:
        engine = self.denoiser.describe(tenure.record.request.model)
        fingerprint = compute_fingerprint(engine)
        saver = CheckpointSaver(ledger=self.ledger, store=self.store, tenure=tenure, fingerprint=fingerprint)
        async with ProgressFeed(self.bus, self.clock, tenure.record, self.stage) as feed:
            boundary = StepBoundary(
                tenure=tenure,
                pulse=pulse,
                feed=feed,
                group=self.group,
                saver=saver,
                checkpoint_every=self.settings.checkpoint_every,
                min_step_s=self.settings.min_step_s,
                clock=self.clock,
            )
            try:
                sampled = await self._sample(tenure, feed, boundary, engine)
            finally:
                await saver.settle()
        if sampled is None:
            await self._step_back(tenure, pulse, saver, boundary.last_state)
        else:
            await self._hand_on(tenure, pulse, sampled)

    async def _sample(
        self,
        tenure: Tenure,
        feed: ProgressFeed,
        boundary: StepBoundary,
        engine: Engine,
    ) -> Sampled | None:
        """Run the sampler to its end; None if it was told to stop."""
        references = [await self.store.get(reference) for reference in tenure.record.request.references]
        resume = await load_checkpoint(self.ledger, self.store, tenure, compute_fingerprint(engine))
        async with self._sampler_free:
            if tenure.is_halted():
                return None
            self.group.begin(tenure.work.job, tenure.work.attempt)
            blob, began_s = None, time.monotonic()
            feed.show(tenure.record.run.step, tenure.record.run.steps)
            try:
                async with beside(self._watch_control(tenure), name=f"control of {tenure.work.job}"):
                    blob = await self._run_engine(tenure, boundary, references, resume)
            finally:
                self.group.end(handing_on=None if blob is None else tenure.work.job)
            sampled_s = time.monotonic() - began_s
        return None if blob is None else Sampled(blob, engine, sampled_s, boundary.first_step)

    async def _run_engine(
        self,
        tenure: Tenure,
        boundary: StepBoundary,
        references: list[bytes],
        resume: bytes | None,
    ) -> bytes | None:
        def run(checkpoint: bytes | None) -> Awaitable[bytes]:
            act = partial(self.denoiser.run, tenure.record.request, references, boundary, checkpoint)
            return run_to_end(self.sampler, act, on_cancel=partial(tenure.order, Halt.STALE))

        try:
            try:
                return await run(resume)
            except CheckpointUnfit as error:
                await forget_checkpoint(self.ledger, tenure, f"the engine refused the checkpoint ({error})")
                return await run(None)
        except Stopped:
            return None

    async def _step_back(
        self,
        tenure: Tenure,
        pulse: Pulse,
        saver: CheckpointSaver,
        last_state: LastState | None,
    ) -> None:
        """Stopped before the end: drained, the job goes back to the queue; stale, nothing may be changed."""
        work = tenure.work
        if last_state is not None and tenure.halt is Halt.DRAIN:
            await saver.save(last_state.step, last_state.blob)
        tenure.check_stale()
        change = partial(requeue, attempt=work.attempt, reason="drained")
        stamped = await persist(lambda: advance(self.ledger, work.job, change), pulse, job=work.job)
        log.info("job drained", job=work.job, stage=work.stage, attempt=work.attempt, step=stamped.record.run.step)

    async def _hand_on(self, tenure: Tenure, pulse: Pulse, sampled: Sampled) -> None:
        """Store the latents, record them, announce the decode work; the checkpoints have served."""
        work = tenure.work
        tenure.check_stale()
        key = latents_key(tenure.record, work.attempt)
        latents = await persist(lambda: self.store.put(key, sampled.blob, CONTENT_TYPE), pulse, job=work.job)

        def change(record: JobRecord) -> JobRecord:
            if has_finished(record, work):  # an earlier try whose answer was lost
                return record
            return finish_denoise(
                record,
                work.attempt,
                latents=latents,
                engine=sampled.engine,
                gpu_s=sampled.seconds * self.group.row.size,
                stage_s=sampled.seconds,
                now=self.clock.now(),
                first_step=sampled.first_step,
            )

        stamped = await persist(lambda: advance(self.ledger, work.job, change), pulse, job=work.job)
        await persist(lambda: self._announce(stamped.record), pulse, job=work.job)
        checkpoints = job_prefix(ObjectClass.CHECKPOINTS, stamped.record)
        await try_remove_objects(self.store, [checkpoints], job=work.job)

    async def _announce(self, record: JobRecord) -> None:
        subject = work_subject(Stage.DECODE, record.admission.pool, record.id)
        await self.bus.publish_work(subject, make_work_item(record, Stage.DECODE).to_event(self.clock.now()))

    async def _watch_control(self, tenure: Tenure) -> None:
        """A control message is a hint to look at the ledger now; without it the ledger's own feed tells."""
        try:
            async with self.bus.watch_control(self.settings.group) as controls:
                async for control in controls:
                    if control.job == tenure.work.job and (current := await self.ledger.get(control.job)):
                        tenure.see(current)
        except VitascopeError as error:
            log.warning("control messages not heard", job=tenure.work.job, stage=self.stage, error=str(error))
