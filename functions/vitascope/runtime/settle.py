"""Settle a delivery: record the outcome of its run, publish what follows, and end it. Store, emit, acknowledge."""

from datetime import timedelta

import structlog

from vitascope.contracts import subjects, transitions
from vitascope.contracts.events import CloudEvent, WorkItem, make_work_item
from vitascope.contracts.failures import Failure, FailureCode, VitascopeError
from vitascope.contracts.flow import STAGE_OF, STAGES, Stage, State
from vitascope.contracts.ids import is_job_id
from vitascope.contracts.jobs import JobRecord
from vitascope.runtime import telemetry
from vitascope.runtime.advance import advance
from vitascope.runtime.completeness import check_not_lost
from vitascope.runtime.dead_letters import make_dead_letter
from vitascope.runtime.outcome import MAX_FAILURES, Outcome, Verdict, compute_delay_s, is_retryable, judge_exhausted
from vitascope.runtime.ports import Bus, Clock, Delivery, Ledger

log = structlog.get_logger(__name__)


class Settler:
    """Ends deliveries of one stage.

    Every method raises `VitascopeError` of an outage when the bus or the ledger is away, or is not rebuilt yet; the
    delivery is then unfinished, comes again, and is settled again: that changes nothing that was done before.
    """

    def __init__(self, bus: Bus, ledger: Ledger, clock: Clock, stage: Stage) -> None:
        self._bus, self._ledger, self._clock, self._stage = bus, ledger, clock, stage

    async def settle(self, delivery: Delivery, work: WorkItem, outcome: Outcome) -> None:
        """Do what the outcome of a run asks for."""
        match outcome.verdict:
            case Verdict.DONE:
                await delivery.ack()
            case Verdict.STALE:
                await self._settle_stale(delivery, work)
            case Verdict.HANDED_BACK:
                await delivery.retry(0)
            case Verdict.WAIT:
                await delivery.retry(compute_delay_s(delivery.deliveries))
            case Verdict.RETRY | Verdict.FAIL:
                await self._settle_failure(delivery, work, outcome)

    async def exhaust(self, delivery: Delivery, work: WorkItem) -> None:
        """Work that ended its process too often: the job fails, the event becomes a dead letter.

        Not so while the job is still at the stage before: whoever waited for that one in vain gave the event back, and
        that says nothing of the work. The event goes, and is published anew with what that stage makes.
        """
        current = await self._ledger.get(work.job)
        states = STAGES[self._stage].states
        if current is None or current.record.run.attempt != work.attempt or current.record.state not in states:
            await self._settle_stale(delivery, work)
            return
        if STAGE_OF[current.record.state] is not self._stage:
            await delivery.ack()
            return
        outcome = judge_exhausted(self._stage, delivery.deliveries)
        assert outcome.failure is not None, "it says why"
        await self._bury(delivery.event, outcome.failure, delivery.deliveries)
        await self._settle_failure(delivery, work, outcome)

    async def reject(self, delivery: Delivery, reason: str) -> None:
        """An event that no handler can work on: dead letter, and never again."""
        await self._bury(delivery.event, Failure.of(FailureCode.INVALID_REQUEST, reason), delivery.deliveries)
        await delivery.drop(reason)

    async def _settle_stale(self, delivery: Delivery, work: WorkItem) -> None:
        current = await self._ledger.get(work.job)
        if current is None:
            await check_not_lost(self._ledger, work.job)
            await self.reject(delivery, f"There is no job {work.job}.")
            return
        if current.record.run.attempt != work.attempt:
            await delivery.drop("the job has another attempt")
            return
        record, row = current.record, STAGES[self._stage]
        if record.state in row.states:
            await delivery.retry(compute_delay_s(delivery.deliveries))  # the run was wrong: the work is still wanted
            return
        if row.next is not None and record.state in STAGES[row.next].states:
            await self._publish(record, row.next)
        failure = record.run.failure
        if failure is not None and failure.stage == self._stage and is_retryable(failure):
            await self._bury(delivery.event, failure, record.run.failures + 1)
        await delivery.ack()

    async def _settle_failure(self, delivery: Delivery, work: WorkItem, outcome: Outcome) -> None:
        failure = outcome.failure
        assert failure is not None, "a failed run says why"
        try:
            stamped = await advance(self._ledger, work.job, lambda record: self._count(record, work, outcome))
        except transitions.TransitionError:
            await self._settle_stale(delivery, work)  # cancelled, or finished after all: the failure means nothing
            return
        except VitascopeError as error:
            if error.code is not FailureCode.NOT_FOUND:
                raise
            await self.reject(delivery, error.detail)
            return
        run = stamped.record.run
        if run.state is State.FAILED and outcome.verdict is Verdict.RETRY:
            await self._bury(delivery.event, failure, run.failures + 1)
        if run.state in STAGES[self._stage].states:
            await delivery.retry(compute_delay_s(run.failures))
        else:
            await delivery.ack()

    def _count(self, record: JobRecord, work: WorkItem, outcome: Outcome) -> JobRecord:
        failure, now = outcome.failure, self._clock.now()
        assert failure is not None, "a failed run says why"
        transitions.check_fence(record, work.attempt, self._stage)
        failures = record.run.failures + 1
        gpu_s = outcome.worked_s * record.admission.group_size if self._stage is Stage.DENOISE else 0.0
        if outcome.verdict is Verdict.FAIL or failures >= MAX_FAILURES:
            return transitions.fail(record, work.attempt, failure, now, gpu_s=gpu_s)
        if self._stage is not Stage.DENOISE:
            return transitions.note_failure(record, work.attempt, self._stage, failure.message)
        not_before = now + timedelta(seconds=compute_delay_s(failures))
        reason = failure.message
        return transitions.requeue(record, work.attempt, reason, not_before=not_before, failed=True, gpu_s=gpu_s)

    async def _publish(self, record: JobRecord, stage: Stage) -> None:
        subject = subjects.subject_of_work(record, stage)
        await self._bus.publish_work(subject, make_work_item(record, stage).to_event(self._clock.now()))

    async def _bury(self, event: CloudEvent, failure: Failure, attempts: int) -> None:
        job = event.subject if event.subject and is_job_id(event.subject) else "unknown"
        letter = make_dead_letter(event, failure, stage=self._stage, attempts=attempts, now=self._clock.now())
        await self._bus.publish_dead(subjects.dead_subject(self._stage, job), letter)
        telemetry.DEAD_LETTERS.labels(stage=self._stage).inc()
        log.error("dead letter", job=job, stage=self._stage, event_id=event.id, code=failure.code)
