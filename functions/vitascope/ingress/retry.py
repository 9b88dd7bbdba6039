"""`POST /v1/video-jobs/{job}/retry`: a new job that goes on where a failed one stopped.

What it can go on with is what the store still has, whatever the stage that failed: latents, else a checkpoint, else
nothing. The new job gets a copy of its own, since the failed one's objects expire with it. The order makes it safe:

1. the new job's id is remembered under the failed one's, create-only, so that there is one retry of a job;
2. the objects are copied inside the store: without a record they are orphans, which the janitor removes;
3. the record's copy and then the record are stored: now the new job exists;
4. if it starts at decode, the event of that is published; the scheduler repairs one that is missing.

Whoever dies in between is finished by the next request for the same.
"""

import hashlib

import structlog
from fastapi import APIRouter, Response
from pydantic import AwareDatetime

from vitascope.contracts import transitions
from vitascope.contracts.events import make_work_item
from vitascope.contracts.failures import FAILURES, FailureCode, FailureKind, VitascopeError
from vitascope.contracts.flow import Stage, State
from vitascope.contracts.frozen import Stored
from vitascope.contracts.ids import JobId, make_job_id
from vitascope.contracts.jobs import Checkpoint, JobRecord, ObjectRef, Reference
from vitascope.contracts.objects import checkpoint_key, inherit_input_key, latents_key
from vitascope.contracts.subjects import subject_of_work
from vitascope.ingress.caller import GivenCaller
from vitascope.ingress.creation import Accepted, Creator
from vitascope.ingress.door import Door, GivenDoor
from vitascope.ingress.lookup import load_job
from vitascope.ingress.openapi import RETRY_ANSWER, describe_errors
from vitascope.ingress.present import present_job
from vitascope.ingress.views import JobView
from vitascope.runtime.ports import ObjectStore

SYNC_TIMEOUT_S = 5.0
"""A replica that has just started waits so long to hear of the retries that there are."""
FIRST_ATTEMPT = 1
DAMAGE = frozenset({FailureCode.OBJECT_CORRUPT, FailureCode.OBJECT_MISSING})
"""After these an object is read once more in whole before the new job is to rely on it."""

router = APIRouter()
log = structlog.get_logger(__name__)


class Draw(Stored):
    """What is remembered of a retry: the new job's id, and when it was asked for."""

    job: JobId
    at: AwareDatetime


@router.post(
    "/v1/video-jobs/{job}/retry",
    status_code=202,
    operation_id="retryVideoJob",
    summary="Try a failed job again",
    responses=RETRY_ANSWER | describe_errors(404, 409, 429),
)
async def retry_job(job: str, response: Response, door: GivenDoor, caller: GivenCaller) -> JobView:
    """Make a new job that goes on where a failed one stopped; `reason` says where. The failed job stays as it is.

    Asked again for the same job, the answer is the same new job.
    """
    failed = (await load_job(door, caller, job)).record
    if failed.state is not State.FAILED:
        raise VitascopeError(FailureCode.NOT_RETRYABLE, f"It is {failed.state}.")
    accepted = await _find_known(door, failed) or await _retry(door, failed)
    record = accepted.stamped.record
    log.info(
        "job tried again",
        job=record.id,
        stage="ingress",
        attempt=record.run.attempt,
        retry_of=job,
        is_replay=accepted.is_replay,
    )
    response.headers["location"] = f"/v1/video-jobs/{record.id}"
    if accepted.is_replay:
        response.headers["idempotency-replayed"] = "true"
    return await present_job(door, record)


async def _find_known(door: Door, failed: JobRecord) -> Accepted | None:
    """A retry that the index has heard of: unlike what is remembered, that outlasts days, and a loss of the ledger."""
    await door.deps.completeness.check()
    if not await door.jobs.wait_synced(SYNC_TIMEOUT_S):
        raise VitascopeError(FailureCode.SERVICE_UNAVAILABLE, "The jobs are still being read.")
    known = door.jobs.find_retry(failed.id)
    stamped = await door.deps.ledger.get(known) if known is not None else None
    return Accepted(stamped, is_replay=True) if stamped is not None else None


async def _retry(door: Door, failed: JobRecord) -> Accepted:
    deps = door.deps
    draw = await _draw(door, failed)
    if (existing := await deps.ledger.get(draw.job)) is not None:
        return Accepted(existing, is_replay=True)
    if deps.catalog.get(failed.request.model) is None:
        raise VitascopeError(FailureCode.MODEL_NOT_FOUND, f"The job was for {failed.request.model}.")
    request, is_queued = failed.request, failed.run.latents is None
    async with door.limits.hold(request.tenant, request.tier, failed.admission.estimated_gpu_s, is_queued=is_queued):
        accepted = await Creator(deps.ledger, deps.store, door.jobs).create(await _make_record(door, failed, draw))
    await _announce(door, accepted.stamped.record)
    return accepted


async def _draw(door: Door, failed: JobRecord) -> Draw:
    """What the first request to retry this job drew."""
    draw = Draw(job=make_job_id(door.now), at=door.now)
    key = f"retry\n{failed.id}"  # no client can send a line feed in a key of its own
    remembered = await door.deps.ledger.remember(failed.request.tenant, key, draw.model_dump_json().encode())
    return draw if remembered is None else Draw.model_validate_json(remembered)


async def _make_record(door: Door, failed: JobRecord, draw: Draw) -> JobRecord:
    """The new job's record, which owns copies of the objects that it goes on with."""
    store, heir = door.deps.store, failed.model_copy(update={"id": draw.job})
    is_suspect = failed.run.failure is not None and failed.run.failure.code in DAMAGE
    checkpoint: Checkpoint | None = None
    latents = await _copy(store, failed.run.latents, latents_key(heir, FIRST_ATTEMPT), is_suspect=is_suspect)
    if latents is None:
        limit = door.deps.settings.max_queued
        if door.jobs.count(State.QUEUED) >= limit:
            raise VitascopeError(FailureCode.QUEUE_FULL, f"{limit} jobs wait.")
        if (kept := failed.run.checkpoint) is not None:
            key = checkpoint_key(heir, FIRST_ATTEMPT, kept.step)
            copied = await _copy(store, kept.object, key, is_suspect=is_suspect)
            checkpoint = kept.model_copy(update={"object": copied}) if copied is not None else None
    references = await _copy_references(store, heir, is_needed=latents is None)
    owner = failed.model_copy(update={"request": failed.request.model_copy(update={"references": references})})
    return transitions.retry(
        owner,
        draw.job,
        latents=latents,
        checkpoint=checkpoint,
        reason=compute_reason(failed, latents, checkpoint),
        now=draw.at,
    )


async def _copy(store: ObjectStore, ref: ObjectRef | None, key: str, *, is_suspect: bool) -> ObjectRef | None:
    """The object under another key; None if there is none, or not the one that was stored."""
    if ref is None:
        return None
    try:
        if is_suspect and not await _is_whole(store, ref):
            return None
        return await store.copy(ref, key)
    except VitascopeError as error:
        if error.code not in DAMAGE:
            raise
        return None


async def _copy_references(store: ObjectStore, heir: JobRecord, *, is_needed: bool) -> tuple[Reference, ...]:
    """The media that the job starts from, as the new job's own: the failed one's goes when that expires.

    Raises:
        VitascopeError: `not_retryable`, it is gone, and the new job has to begin with it.
    """
    copied = []
    for reference in heir.request.references:
        key = inherit_input_key(reference.object.key, heir)
        own = await _copy(store, reference.object, key, is_suspect=False)
        if own is None and is_needed:
            raise VitascopeError(FailureCode.NOT_RETRYABLE, "The media that it started from is gone.")
        copied.append(reference if own is None else reference.model_copy(update={"object": own}))
    return tuple(copied)


async def _is_whole(store: ObjectStore, ref: ObjectRef) -> bool:
    digest = hashlib.sha256()
    async for piece in store.stream(ref.key):
        digest.update(piece)
    return digest.hexdigest() == ref.sha256


def compute_reason(failed: JobRecord, latents: ObjectRef | None, checkpoint: Checkpoint | None) -> str:
    """Where the new job starts, what that costs, and whether it is likely to end like the failed one."""
    if latents is not None:
        start = "its latents are kept, so it starts at decode"
    elif checkpoint is not None:
        start = f"it goes on after step {checkpoint.step} of {failed.run.steps}"
    elif failed.run.attempt == 0:
        start = "it had not started"
    else:
        start = "nothing of its work is left, so it starts from the first step and its GPU time is bought again"
    code = failed.run.failure.code if failed.run.failure is not None else None
    comes_back = (
        code is not None
        and FAILURES[code].kind is FailureKind.TERMINAL
        and code not in {FailureCode.START_DEADLINE_PASSED, FailureCode.OBJECT_MISSING}  # gone with the new record
    )
    warning = f" {code} comes again unless its cause was mended." if comes_back else ""
    return f"Retry of {failed.id}: {start}.{warning}"


async def _announce(door: Door, record: JobRecord) -> None:
    """The event of a job that starts at decode; who only found the job publishes a copy, which is dropped."""
    if record.state is not State.DECODING:
        return
    subject = subject_of_work(record, Stage.DECODE)
    try:
        await door.deps.bus.publish_work(subject, make_work_item(record, Stage.DECODE).to_event(door.now))
    except VitascopeError as error:
        log.warning("event left to the scheduler", job=record.id, stage="ingress", attempt=1, error=str(error))
