"""Noise to latents: one job at a time in the sampler, while the one before is still being handed on."""

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Awaitable
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import ClassVar

import structlog

from vitascope.contracts.deadlines import compute_limits
from vitascope.contracts.events import WorkItem, make_work_item
from vitascope.contracts.failures import VitascopeError
from vitascope.contracts.flow import Stage
from vitascope.contracts.jobs import Checkpoint, Engine, JobRecord
from vitascope.contracts.objects import ObjectClass, latents_key
from vitascope.contracts.subjects import subject_of_work
from vitascope.contracts.transitions import StaleAttempt, TransitionError, finish_denoise, note_checkpoint, requeue
from vitascope.denoise.checkpoint import (
    CONTENT_TYPE,
    CheckpointSaver,
    compute_fingerprint,
    forget_checkpoint,
    load_checkpoint,
)
from vitascope.denoise.denoiser import CheckpointUnfit, Denoiser, Stopped
from vitascope.denoise.grace import Grace
from vitascope.denoise.group import GroupHeartbeat
from vitascope.denoise.steps import LastState, StepBoundary
from vitascope.runtime.advance import advance
from vitascope.runtime.beside import beside, run_to_end
from vitascope.runtime.leftovers import remove_leftovers, remove_served
from vitascope.runtime.persist import persist
from vitascope.runtime.ports import Bus, Clock, Ledger, ObjectStore
from vitascope.runtime.progress import ProgressFeed
from vitascope.runtime.settings import DenoiseSettings
from vitascope.runtime.stage import Pulse
from vitascope.runtime.tenure import Halt, Tenure, Tenures, has_finished, load_record

MADE = (ObjectClass.CHECKPOINTS, ObjectClass.LATENTS)
PREEMPT_REST_S = 5.0
"""So long a preempted job is not dispatched again, though its place in the queue is before that of most who wait: the
group goes to another job, if there is one that fits. Longer than a scheduler takes to hear of the free group, or a new
scheduler to take over."""
_BEGINS_NOTHING = frozenset({Halt.STALE, Halt.DRAIN})

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Sampled:
    """What the sampler made of a job, and how long it was busy with it.

    Told to stop, it leaves no `blob`, but the state that it stopped at, unless it had not begun or is stale.
    """

    engine: Engine
    blob: bytes | None = None
    last_state: LastState | None = None
    seconds: float = 0.0
    first_step: datetime | None = None


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
    _grace: Grace = field(init=False)

    def __post_init__(self) -> None:
        self._tenures, self._grace = Tenures(self.ledger), Grace(self.settings.grace_s)

    async def handle(self, work: WorkItem, pulse: Pulse) -> None:
        """Denoise a job and hand its latents on; see `StageHandler`.

        Drained or preempted, it puts the job back into the queue with the newest state as its checkpoint, which is its
        end, too. A preempted job has made at least one step by then (see `StepBoundary`), and waits `PREEMPT_REST_S`.
        """
        try:
            record = await load_record(self.ledger, work)
            if has_finished(record, work):
                await self._announce(record)
                return
            pulse.expect(compute_limits(record, self.stage))
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
        self._grace.begin()
        self._tenures.drain()

    async def prove(self) -> None:
        """Denoise next to nothing; see `StageHandler`. What the failed run left in memory is freed first."""
        async with self._sampler_free:
            await run_to_end(self.sampler, gc.collect)
            await run_to_end(self.sampler, self.denoiser.prove)

    async def _work(self, tenure: Tenure, pulse: Pulse) -> None:
        fingerprint = compute_fingerprint(self.denoiser.describe(tenure.record.request.model))
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
                sampled = await self._sample(tenure, pulse, feed, boundary)
            except BaseException:
                pulse.begin()
                await saver.settle()
                raise
        pulse.begin()  # no more steps: what follows is uploads
        try:
            if sampled.blob is None:
                await self._step_back(tenure, pulse, saver, sampled)
            else:
                with pulse.waiting():
                    await saver.settle()
                await self._hand_on(tenure, pulse, sampled, sampled.blob)
        except TransitionError:
            await saver.discard()
            raise

    async def _sample(self, tenure: Tenure, pulse: Pulse, feed: ProgressFeed, boundary: StepBoundary) -> Sampled:
        """Run the sampler to its end, or until it is told to stop."""
        engine = self.denoiser.describe(tenure.record.request.model)
        references = [await self.store.get(reference.object) for reference in tenure.record.request.references]
        resume = await load_checkpoint(self.ledger, self.store, tenure, compute_fingerprint(engine))
        async with self._sampler(pulse):
            if tenure.halt in _BEGINS_NOTHING:
                return Sampled(engine)
            self.group.begin(tenure.work.job, tenure.work.attempt)
            blob, began_s, seconds = None, time.monotonic(), 0.0
            feed.show(tenure.record.run.step, tenure.record.run.steps)
            async with beside(self._watch_control(tenure), name=f"control of {tenure.work.job}"):
                try:
                    blob = await self._run_engine(tenure, boundary, references, resume)
                finally:  # said before anything else is waited for: from now on the next job may come
                    is_kept = blob is not None or boundary.last_state is not None
                    self.group.end(handing_on=tenure.work.job if is_kept else None)
                    seconds = time.monotonic() - began_s
        return Sampled(engine, blob, boundary.last_state, seconds, boundary.first_step)

    @asynccontextmanager
    async def _sampler(self, pulse: Pulse) -> AsyncIterator[None]:
        """The sampler to oneself; waiting for it is not the run's own doing."""
        with pulse.waiting():
            await self._sampler_free.acquire()
        try:
            yield
        finally:
            self._sampler_free.release()

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

    async def _step_back(self, tenure: Tenure, pulse: Pulse, saver: CheckpointSaver, sampled: Sampled) -> None:
        """Stopped before the end: drained or preempted, the job goes back to the queue; stale, nothing may be changed.

        Checkpoint and queue are one change of the record. The GPU time counts, though another run will end the job.
        """
        work, last_state = tenure.work, sampled.last_state
        is_preempted = last_state is not None and last_state.halt is Halt.PREEMPT
        reason, checkpoint = "preempted" if is_preempted else "drained", None
        if last_state is not None:
            checkpoint = await self._save_last(tenure, pulse, saver, last_state)
            reason += "" if checkpoint else "; its newest steps could not be saved"
        tenure.check_stale()

        def change(record: JobRecord) -> JobRecord:
            kept = record if checkpoint is None else note_checkpoint(record, work.attempt, checkpoint)
            return requeue(
                kept,
                work.attempt,
                reason,
                not_before=self.clock.now() + timedelta(seconds=PREEMPT_REST_S) if is_preempted else None,
                preempted=is_preempted,
                gpu_s=sampled.seconds * self.group.row.size,
                first_step=sampled.first_step,
            )

        stamped = await persist(lambda: advance(self.ledger, work.job, change), pulse, job=work.job)
        log.info("job put back", job=work.job, attempt=work.attempt, reason=reason, step=stamped.record.run.step)
        self.group.handed_on(work.job)  # before the removal: the job may come back while that goes on
        await saver.tidy(stamped.record)

    async def _save_last(
        self,
        tenure: Tenure,
        pulse: Pulse,
        saver: CheckpointSaver,
        state: LastState,
    ) -> Checkpoint | None:
        """Store the state that the run stopped at, through an outage; None if it cannot be, or not before the end."""
        work = tenure.work
        try:
            async with self._grace.limit():
                with pulse.waiting():
                    await saver.settle()
                tenure.check_stale()
                return await persist(lambda: saver.upload(state.step, state.blob), pulse, job=work.job)
        except (VitascopeError, TimeoutError) as error:
            log.warning("last state lost", job=work.job, attempt=work.attempt, step=state.step, error=repr(error))
            return None

    async def _hand_on(self, tenure: Tenure, pulse: Pulse, sampled: Sampled, blob: bytes) -> None:
        """Store the latents, record them, announce the decode work; the checkpoints have served."""
        work = tenure.work
        tenure.check_stale()
        key = latents_key(tenure.record, work.attempt)
        latents = await persist(lambda: self.store.put(key, blob, CONTENT_TYPE), pulse, job=work.job)

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
        await remove_served(self.ledger, self.store, work, (ObjectClass.CHECKPOINTS,))

    async def _announce(self, record: JobRecord) -> None:
        subject = subject_of_work(record, Stage.DECODE)
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
