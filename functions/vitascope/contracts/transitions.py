"""The state machine: pure functions from a record to the next one.

Each takes the record and the caller's attempt where the caller is a stage, and returns a new record. The ledger
stores it by compare-and-set, so of two callers one wins and the other decides anew. A caller whose attempt is old
gets `StaleAttempt`, whatever it wants to do.
"""

from datetime import datetime

from vitascope.contracts.failures import FAILURES, Failure, FailureCode
from vitascope.contracts.flow import STAGES, SUCCESSORS, Stage, State
from vitascope.contracts.ids import JobId
from vitascope.contracts.jobs import (
    Admission,
    Checkpoint,
    Engine,
    JobRecord,
    ObjectRef,
    Result,
    Run,
    Times,
    VideoRequest,
)

LEDGER_LOST_ATTEMPTS = 1000
"""Attempts that a rebuilt record is ahead of its copy: whoever still works for the lost ledger is stale, since no job
is dispatched so often."""


class TransitionError(Exception):
    """The change is not one that the state machine allows."""


class StaleAttempt(TransitionError):
    """The caller's attempt is no longer the job's: it must stop, and may change nothing."""


class IllegalTransition(TransitionError):
    """The record is in a state from which this change is not possible."""


def accept(
    job_id: str,
    request: VideoRequest,
    admission: Admission,
    *,
    now: datetime,
    start_deadline: datetime | None = None,
) -> JobRecord:
    """A new queued record."""
    run = Run(steps=request.num_inference_steps, start_deadline=start_deadline)
    times = Times(created=now, admitted=now)
    return JobRecord(id=job_id, request=request, admission=admission, run=run, times=times)


def start(record: JobRecord, group: str, now: datetime) -> JobRecord:
    """Queued to running on a group, with a new attempt."""
    attempt = record.run.attempt + 1
    changed = _move(record, State.RUNNING, group=group, attempt=attempt, reason=None)
    return _stamp(changed, started=record.times.started or now)


def note_checkpoint(record: JobRecord, attempt: int, checkpoint: Checkpoint) -> JobRecord:
    """Remember a newer checkpoint. An older one than the record's is a mistake of the caller."""
    check_fence(record, attempt, Stage.DENOISE)
    if checkpoint.step < record.run.step:
        raise IllegalTransition(f"checkpoint of step {checkpoint.step} after step {record.run.step}")
    failures = 0 if checkpoint.step > record.run.step else record.run.failures
    return _run(record, checkpoint=checkpoint, step=checkpoint.step, failures=failures)


def requeue(
    record: JobRecord,
    attempt: int,
    reason: str,
    *,
    not_before: datetime | None = None,
    failed: bool = False,
    preempted: bool = False,
    gpu_s: float = 0.0,
    first_step: datetime | None = None,
) -> JobRecord:
    """Running back to queued, checkpoint kept: preempted, drained, its group lost, or (`failed`) its try failed.

    `gpu_s` is what the try cost, in GPU-seconds, and `first_step` when it made its first step, where its process could
    say so.
    """
    check_fence(record, attempt, Stage.DENOISE)
    changed = _move(
        record,
        State.QUEUED,
        group=None,
        reason=reason,
        not_before=not_before,
        failures=record.run.failures + int(failed),
        preemptions=record.run.preemptions + int(preempted),
    )
    spent = changed.result.model_copy(update={"actual_gpu_s": record.result.actual_gpu_s + gpu_s})
    return _stamp(changed.model_copy(update={"result": spent}), first_step=record.times.first_step or first_step)


def request_preempt(record: JobRecord) -> JobRecord:
    """Ask the group to give the job up at the next step boundary, its state kept. Asking twice is the same as once.

    Raises:
        IllegalTransition: the job is not being denoised.
    """
    if record.state is not State.RUNNING:
        raise IllegalTransition(f"{record.id} is {record.state}")
    return record if record.run.preempt_requested else _run(record, preempt_requested=True)


def lose(record: JobRecord, attempt: int, reason: str, *, max_losses: int, now: datetime) -> JobRecord:
    """The group is gone: back to queued, or, when that keeps happening without progress, failed.

    A job that ends its process each time it runs would otherwise take one group after the other down with it. A
    checkpoint that is newer than the last loss sets the count back.
    """
    check_fence(record, attempt, Stage.DENOISE)
    if record.run.failures + 1 >= max_losses:
        return fail(record, attempt, Failure.of(FailureCode.GROUP_LOST, f"It happened {max_losses} times."), now)
    return requeue(record, attempt, reason, failed=True)


def drop_checkpoint(record: JobRecord, attempt: int, reason: str) -> JobRecord:
    """Start from the first step again, because the checkpoint does not fit; the reason stays in the record."""
    check_fence(record, attempt, Stage.DENOISE)
    return _run(record, checkpoint=None, step=0, reason=reason, restarted=reason)


def note_failure(record: JobRecord, attempt: int, stage: Stage, reason: str) -> JobRecord:
    """Count a failed try of the present stage that will be tried again."""
    check_fence(record, attempt, stage)
    return _run(record, failures=record.run.failures + 1, reason=reason)


def finish_denoise(
    record: JobRecord,
    attempt: int,
    *,
    latents: ObjectRef,
    engine: Engine,
    gpu_s: float,
    stage_s: float,
    now: datetime,
    first_step: datetime | None = None,
) -> JobRecord:
    """Running to decoding: the latents are safe in the store."""
    check_fence(record, attempt, Stage.DENOISE)
    changed = _move(
        record,
        State.DECODING,
        group=None,
        latents=latents,
        step=record.run.steps,
        failures=0,
        reason=None,
    )
    changed = _result(
        changed,
        Stage.DENOISE,
        stage_s,
        engine=engine,
        actual_gpu_s=record.result.actual_gpu_s + gpu_s,
    )
    return _stamp(changed, denoised=now, first_step=record.times.first_step or first_step or now)


def finish_decode(record: JobRecord, attempt: int, *, chunks: int, stage_s: float, now: datetime) -> JobRecord:
    """Decoding to encoding: every pixel chunk is safe in the store."""
    check_fence(record, attempt, Stage.DECODE)
    changed = _move(record, State.ENCODING, chunks=chunks, failures=0, reason=None)
    return _stamp(_result(changed, Stage.DECODE, stage_s), decoded=now)


def succeed(record: JobRecord, attempt: int, result: Result, *, stage_s: float, now: datetime) -> JobRecord:
    """Encoding to succeeded. Of `result` the fields about the file are taken; the rest is the record's own."""
    check_fence(record, attempt, Stage.ENCODE)
    changed = _move(record, State.SUCCEEDED, failures=0, reason=None)
    file_fields = ("output", "thumbnail", "spritesheet", "num_frames", "fps", "duration_s", "has_audio")
    made = {name: getattr(result, name) for name in file_fields}
    changed = _result(changed, Stage.ENCODE, stage_s, billed_units=record.admission.price_units, **made)
    return _stamp(changed, encoded=now, finished=now)


def withhold(record: JobRecord, attempt: int, failure: Failure, *, stage_s: float, now: datetime) -> JobRecord:
    """Encoding to withheld: the clip is finished, nobody may see it, and it is not billed. Its file is not uploaded."""
    check_fence(record, attempt, Stage.ENCODE)
    changed = _move(record, State.WITHHELD, failure=failure, failures=0, reason=FAILURES[failure.code].sentence)
    return _stamp(_result(changed, Stage.ENCODE, stage_s), finished=now)


def fail(record: JobRecord, attempt: int, failure: Failure, now: datetime, *, gpu_s: float = 0.0) -> JobRecord:
    """Any live state to failed; `gpu_s` as for `requeue`."""
    if attempt != record.run.attempt:
        raise StaleAttempt(f"attempt {attempt} of {record.id}, which is at attempt {record.run.attempt}")
    changed = _move(record, State.FAILED, failure=failure, reason=FAILURES[failure.code].sentence, group=None)
    spent = changed.result.model_copy(update={"actual_gpu_s": record.result.actual_gpu_s + gpu_s})
    return _stamp(changed.model_copy(update={"result": spent}), finished=now)


def cancel(record: JobRecord, now: datetime) -> JobRecord:
    """Any live state to cancelled, at once: the process that works on it sees that and stops.

    A cancelled record comes back unchanged, so that cancelling twice is the same as once.

    Raises:
        IllegalTransition: the job has ended in another way.
    """
    if record.state is State.CANCELLED:
        return record
    return _stamp(_move(record, State.CANCELLED, reason="cancelled by the client", group=None), finished=now)


def expire(record: JobRecord, now: datetime) -> JobRecord:
    """A terminal state to expired: the files may go from now on."""
    return _stamp(_move(record, State.EXPIRED, reason="the result has expired"), expires=now)


def delete(record: JobRecord, now: datetime) -> JobRecord:
    """Take a job away from its owner: a live one is cancelled, an ended one expires at once, and its files go.

    A deleted record comes back unchanged, so that deleting twice is the same as once.

    Raises:
        IllegalTransition: it has expired already; there is nothing left of it but the record, which may be forgotten.
    """
    if record.times.deleted is not None:
        return record
    if record.is_terminal:
        return _stamp(_move(record, State.EXPIRED, reason="deleted by the client"), expires=now, deleted=now)
    cancelled = _move(record, State.CANCELLED, reason="deleted by the client", group=None)
    return _stamp(cancelled, finished=now, deleted=now)


def retry(
    failed: JobRecord,
    job_id: JobId,
    *,
    latents: ObjectRef | None,
    checkpoint: Checkpoint | None,
    reason: str,
    now: datetime,
) -> JobRecord:
    """A new job that goes on where a failed one stopped: a terminal state stays, and so does what was said of it.

    With `latents` (the new job's own copy) it starts at decode, else it is queued for denoise, from `checkpoint` if
    there is one.

    Raises:
        IllegalTransition: the job has not failed.
    """
    if failed.state is not State.FAILED:
        raise IllegalTransition(f"{failed.id} is {failed.state}")
    admission = failed.admission.model_copy(update={"idempotency_key": None})
    steps = failed.run.steps
    run = Run(steps=steps, checkpoint=checkpoint, step=checkpoint.step if checkpoint else 0, reason=reason)
    times, result = Times(created=now, admitted=now), Result()
    if latents is not None:
        # Attempt 1 is what the first dispatch would have made of it; decode and encode only compare it.
        run = Run(state=State.DECODING, attempt=1, steps=steps, step=steps, latents=latents, reason=reason)
        times, result = times.model_copy(update={"started": now}), Result(engine=failed.result.engine)
    return JobRecord(
        id=job_id,
        request=failed.request,
        admission=admission,
        run=run,
        retry_of=failed.id,
        result=result,
        times=times,
    )


def rebuild(copy: JobRecord) -> JobRecord:
    """The record for a new ledger, made of a copy of the one in the lost ledger; the end of an ended job stays.

    Checkpoint and latents are objects and still there, so denoise goes on from them. Pixel chunks belong to an attempt,
    so decode begins anew. The attempt is raised by `LEDGER_LOST_ATTEMPTS`.
    """
    if copy.is_terminal:
        return copy
    attempt, reason = copy.run.attempt + LEDGER_LOST_ATTEMPTS, "the ledger was lost and rebuilt from its copies"
    changes: dict[str, object] = {"attempt": attempt, "group": None, "reason": reason, "preempt_requested": False}
    if copy.state is State.RUNNING:
        changes["state"] = State.QUEUED
    elif copy.state is State.ENCODING:
        changes |= {"state": State.DECODING, "chunks": None}
    return _run(copy, **changes)


def check_fence(record: JobRecord, attempt: int, stage: Stage) -> None:
    """Refuse a stage whose attempt is old, or whose work is over.

    Raises:
        StaleAttempt: as said.
    """
    if attempt != record.run.attempt:
        raise StaleAttempt(f"attempt {attempt} of {record.id}, which is at attempt {record.run.attempt}")
    if record.state not in STAGES[stage].states:
        raise StaleAttempt(f"{stage} of {record.id}, which is {record.state}")


def check_successor(old: JobRecord, new: JobRecord) -> None:
    """What every store of records enforces, whatever the caller did: the rules that no bug may break.

    Raises:
        IllegalTransition: the state may not follow, the attempt falls, or what was accepted has changed.
    """
    if new.state is not old.state and new.state not in SUCCESSORS[old.state]:
        raise IllegalTransition(f"{old.id}: {old.state} to {new.state}")
    if old.is_terminal and new.state is old.state and new != old:
        raise IllegalTransition(f"{old.id} is {old.state} and cannot change")
    if new.run.attempt < old.run.attempt:
        raise IllegalTransition(f"{old.id}: attempt {old.run.attempt} to {new.run.attempt}")
    if (new.id, new.request, new.admission, new.retry_of) != (old.id, old.request, old.admission, old.retry_of):
        raise IllegalTransition(f"{old.id}: what was accepted cannot change")


def _move(record: JobRecord, state: State, **changes: object) -> JobRecord:
    if state not in SUCCESSORS[record.state]:
        raise IllegalTransition(f"{record.id}: {record.state} to {state}")
    # A request for preemption is made to one tenure of a group, and ends with it, however that ends.
    return _run(record, state=state, preempt_requested=False, **changes)


def _run(record: JobRecord, **changes: object) -> JobRecord:
    return record.model_copy(update={"run": record.run.model_copy(update=changes)})


def _result(record: JobRecord, stage: Stage, stage_s: float, **changes: object) -> JobRecord:
    spent = {**record.result.stage_s, stage.value: record.result.stage_s.get(stage.value, 0.0) + stage_s}
    return record.model_copy(update={"result": record.result.model_copy(update={"stage_s": spent, **changes})})


def _stamp(record: JobRecord, **times: datetime | None) -> JobRecord:
    return record.model_copy(update={"times": record.times.model_copy(update=times)})
