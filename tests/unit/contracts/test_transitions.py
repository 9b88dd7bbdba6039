"""The state machine: terminal states are final, and a stale attempt changes nothing."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from records import ENGINE, NOW, RESULT, object_ref, queued_record, record_in, video_request
from vitascope.contracts import transitions as t
from vitascope.contracts.failures import Failure, FailureCode
from vitascope.contracts.flow import STAGES, SUCCESSORS, TERMINAL, Stage, State
from vitascope.contracts.ids import make_job_id
from vitascope.contracts.jobs import Checkpoint, JobRecord, Result

NEW_ID = make_job_id(NOW)
FAILURE = Failure.of(FailureCode.DENOISE_FAILED)
Change = Callable[[JobRecord, int], JobRecord]

CHANGES: dict[str, Change] = {
    "start": lambda r, _: t.start(r, "g1", NOW),
    "checkpoint": lambda r, a: t.note_checkpoint(
        r, a, Checkpoint(object=object_ref(), step=r.run.step + 1, fingerprint="f")
    ),
    "drop checkpoint": lambda r, a: t.drop_checkpoint(r, a, "another engine"),
    "requeue": lambda r, a: t.requeue(r, a, "drained"),
    "requeue preempted": lambda r, a: t.requeue(r, a, "preempted", preempted=True, gpu_s=1.5, first_step=NOW),
    "request preempt": lambda r, _: t.request_preempt(r),
    "lose": lambda r, a: t.lose(r, a, "gone", max_losses=3, now=NOW),
    "requeue failed": lambda r, a: t.requeue(r, a, "failed", failed=True),
    "note decode failure": lambda r, a: t.note_failure(r, a, Stage.DECODE, "oom"),
    "note encode failure": lambda r, a: t.note_failure(r, a, Stage.ENCODE, "oom"),
    "finish denoise": lambda r, a: t.finish_denoise(
        r, a, latents=object_ref(), engine=ENGINE, gpu_s=1, stage_s=1, now=NOW
    ),
    "finish decode": lambda r, a: t.finish_decode(r, a, chunks=3, stage_s=1, now=NOW),
    "succeed": lambda r, a: t.succeed(r, a, Result(output=object_ref()), stage_s=1, now=NOW),
    "fail": lambda r, a: t.fail(r, a, FAILURE, NOW),
    "cancel": lambda r, _: t.cancel(r, NOW),
    "expire": lambda r, _: t.expire(r, NOW),
    "delete": lambda r, _: t.delete(r, NOW),
}
BY_ATTEMPT = sorted(set(CHANGES) - {"start", "cancel", "expire", "delete", "request preempt"})
CHECKPOINT = Checkpoint(object=object_ref("checkpoints/x"), step=10, fingerprint="f")


@given(st.lists(st.tuples(st.sampled_from(sorted(CHANGES)), st.integers(0, 1)), max_size=40))
def test_any_path_keeps_the_rules(path: list[tuple[str, int]]) -> None:
    """Whatever is tried in whatever order: terminal is final, attempts never fall, what was accepted stays."""
    record = queued_record()
    for name, age in path:
        before = record
        try:
            record = CHANGES[name](record, record.run.attempt - age)
        except t.TransitionError:
            continue
        t.check_successor(before, record)
        if before.is_terminal and record != before:
            assert record.state is State.EXPIRED
        assert record.run.attempt >= before.run.attempt
        assert record.run.step <= max(record.run.steps, len(path))
    assert JobRecord.from_bytes(record.to_bytes()) == record


@pytest.mark.parametrize("state", [s for s in State if s not in {State.REFUSED, State.WITHHELD}])
@pytest.mark.parametrize("name", BY_ATTEMPT)
def test_stale_attempt_changes_nothing(state: State, name: str) -> None:
    """A caller with an old attempt is told so, in every state and whatever it wants."""
    record = record_in(state)
    with pytest.raises(t.StaleAttempt):
        CHANGES[name](record, record.run.attempt - 1)


@pytest.mark.parametrize("state", sorted(TERMINAL))
def test_terminal_states_lead_to_expired_only(state: State) -> None:
    """The table itself has no way out of a terminal state."""
    assert (frozenset() if state is State.EXPIRED else {State.EXPIRED}) == SUCCESSORS[state]


def test_every_live_state_can_fail_and_be_cancelled() -> None:
    """No job can be stuck without a way to end it."""
    live = set(State) - TERMINAL
    assert live == {s for s, after in SUCCESSORS.items() if {State.FAILED, State.CANCELLED} <= after}


def test_stage_table_follows_the_state_machine() -> None:
    """Each stage's result state may follow a state in which the stage works."""
    assert all(any(row.done in SUCCESSORS[s] for s in row.states) for row in STAGES.values())
    assert [Stage.DECODE, Stage.ENCODE, None] == [row.next for row in STAGES.values()]


def test_requeue_keeps_checkpoint_and_start_raises_attempt() -> None:
    """A preempted job goes on where it was, under a new fence."""
    checkpoint = Checkpoint(object=object_ref("checkpoints/x"), step=10, fingerprint="f")
    record = t.note_checkpoint(record_in(State.RUNNING), 1, checkpoint)
    again = t.start(t.requeue(record, 1, "preempted", not_before=NOW), "g2", NOW + timedelta(seconds=9))
    assert (checkpoint, 10, 2, "g2") == (again.run.checkpoint, again.run.step, again.run.attempt, again.run.group)
    assert again.times.started == NOW


def test_request_to_preempt_is_forgotten_by_a_job_that_finishes() -> None:
    """It came after the last step: decode knows nothing of it."""
    asked = t.request_preempt(record_in(State.RUNNING))
    done = t.finish_denoise(asked, 1, latents=object_ref(), engine=ENGINE, gpu_s=1, stage_s=1, now=NOW)
    assert (State.DECODING, False, 0) == (done.state, done.run.preempt_requested, done.run.preemptions)


@pytest.mark.parametrize("state", [s for s in State if s not in {State.RUNNING, State.REFUSED, State.WITHHELD}])
def test_only_a_running_job_can_be_preempted(state: State) -> None:
    """A queued job has no group, and a later stage none that anybody waits for."""
    with pytest.raises(t.IllegalTransition):
        t.request_preempt(record_in(state))


def test_gpu_time_of_all_tries_adds_up() -> None:
    """Given up twice and finished once; the first step is the first try's."""
    record, later = record_in(State.RUNNING), NOW + timedelta(seconds=5)
    for attempt, gpu_s in ((1, 2.0), (2, 3.5)):
        given_up = t.requeue(record, attempt, "drained", gpu_s=gpu_s, first_step=later if attempt == 1 else None)
        record = t.start(given_up, "g0", NOW)
    done = t.finish_denoise(
        record,
        3,
        latents=object_ref(),
        engine=ENGINE,
        gpu_s=1.0,
        stage_s=1.0,
        now=NOW + timedelta(hours=1),
        first_step=NOW + timedelta(hours=1),
    )
    assert (6.5, later) == (done.result.actual_gpu_s, done.times.first_step)


@pytest.mark.parametrize(
    ("state", "rebuilt"),
    [
        pytest.param(State.QUEUED, State.QUEUED, id="queued"),
        pytest.param(State.RUNNING, State.QUEUED, id="running"),
        pytest.param(State.DECODING, State.DECODING, id="decoding"),
        pytest.param(State.ENCODING, State.DECODING, id="encoding"),
    ],
)
def test_rebuilt_job_goes_on_from_its_objects(state: State, rebuilt: State) -> None:
    """Checkpoint and latents stay, pixel chunks do not; whoever works for the lost ledger is stale, in every stage."""
    copy = record_in(state)
    record = t.rebuild(copy)
    assert (rebuilt, None, None) == (record.state, record.run.group, record.run.chunks)
    assert (copy.run.latents, copy.run.checkpoint, copy.id) == (record.run.latents, record.run.checkpoint, record.id)
    assert copy.run.attempt + t.LEDGER_LOST_ATTEMPTS == record.run.attempt
    assert "ledger was lost" in str(record.run.reason)
    for stage in Stage:
        with pytest.raises(t.StaleAttempt):
            t.check_fence(record, copy.run.attempt, stage)


def test_rebuilt_job_keeps_its_checkpoint() -> None:
    """The steps that are safe are not made again, and a request to preempt died with its group."""
    copy = t.request_preempt(t.note_checkpoint(record_in(State.RUNNING), 1, CHECKPOINT))
    run = t.rebuild(copy).run
    assert (State.QUEUED, CHECKPOINT, 10, False) == (run.state, run.checkpoint, run.step, run.preempt_requested)


@pytest.mark.parametrize("state", sorted(TERMINAL - {State.REFUSED, State.WITHHELD}))
def test_rebuilt_end_is_the_end(state: State) -> None:
    """What ended stays as it was."""
    copy = record_in(state)
    assert copy is t.rebuild(copy)


def lose(record: JobRecord, attempt: int) -> JobRecord:
    return t.lose(record, attempt, "its GPU group is gone", max_losses=3, now=NOW)


def test_job_that_keeps_losing_its_group_fails() -> None:
    """The third loss without progress in between ends it, with its code; those before put it back."""
    record = record_in(State.RUNNING)
    for attempt in (1, 2):
        record = t.start(lose(record, attempt), "g0", NOW)
    record = lose(record, 3)
    assert record.run.failure is not None
    assert (State.FAILED, FailureCode.GROUP_LOST) == (record.state, record.run.failure.code)


def test_progress_forgives_losses() -> None:
    """A long job on unsteady machines goes on as long as each loss comes after a newer checkpoint."""
    record = record_in(State.RUNNING)
    for attempt in range(1, 8):
        checkpoint = Checkpoint(object=object_ref(), step=attempt, fingerprint="f")
        record = t.start(lose(t.note_checkpoint(record, attempt, checkpoint), attempt), "g0", NOW)
    assert (State.RUNNING, 8) == (record.state, record.run.attempt)


def test_older_checkpoint_is_refused() -> None:
    """Progress of an attempt never falls."""
    checkpoint = Checkpoint(object=object_ref(), step=10, fingerprint="f")
    record = t.note_checkpoint(record_in(State.RUNNING), 1, checkpoint)
    with pytest.raises(t.IllegalTransition):
        t.note_checkpoint(record, 1, checkpoint.model_copy(update={"step": 9}))


def test_cancel_twice_is_cancel_once() -> None:
    """Cancelling a cancelled job changes nothing; cancelling a finished one is refused."""
    cancelled = t.cancel(record_in(State.RUNNING), NOW)
    assert cancelled is t.cancel(cancelled, NOW + timedelta(hours=1))
    with pytest.raises(t.IllegalTransition):
        t.cancel(record_in(State.SUCCEEDED), NOW)


@pytest.mark.parametrize("state", [s for s in State if s not in {State.REFUSED, State.WITHHELD, State.EXPIRED}])
def test_deleting_ends_a_live_job_and_expires_an_ended_one(state: State) -> None:
    """It says when, and deleting twice is deleting once."""
    deleted = t.delete(record_in(state), NOW)
    expected = State.EXPIRED if state in TERMINAL else State.CANCELLED
    assert (expected, NOW, None) == (deleted.state, deleted.times.deleted, deleted.run.group)
    assert deleted is t.delete(deleted, NOW + timedelta(hours=1))


def test_what_has_expired_cannot_be_deleted() -> None:
    """There is nothing left to take away but the record."""
    with pytest.raises(t.IllegalTransition):
        t.delete(record_in(State.EXPIRED), NOW)


def test_stage_seconds_add_up_over_tries() -> None:
    """Time of several tries of a stage is kept as a sum."""
    record = t.finish_decode(record_in(State.DECODING), 1, chunks=1, stage_s=2.5, now=NOW)
    assert {"denoise": 1.0, "decode": 2.5} == record.result.stage_s


def test_preemption_is_requested_once_and_forgotten_at_the_next_start() -> None:
    """Asking twice changes nothing; the request ends with the tenure that it was made to."""
    asked = t.request_preempt(record_in(State.RUNNING))
    assert asked.run.preempt_requested
    assert asked is t.request_preempt(asked)
    queued = t.requeue(asked, 1, "preempted", preempted=True, gpu_s=2.0)
    assert (False, 1, 0, 2.0) == (
        queued.run.preempt_requested, queued.run.preemptions, queued.run.failures, queued.result.actual_gpu_s
    )  # fmt: skip
    assert not t.start(asked.model_copy(update={"run": queued.run}), "g1", NOW).run.preempt_requested


@pytest.mark.parametrize("end", ["cancelled", "failed"])
def test_a_request_for_preemption_ends_with_the_job(end: str) -> None:
    """Nothing is about to be given up any more."""
    asked = t.request_preempt(record_in(State.RUNNING))
    failure = Failure.of(FailureCode.DENOISE_FAILED, stage="denoise")
    ended = t.cancel(asked, NOW) if end == "cancelled" else t.fail(asked, 1, failure, NOW)
    assert (end, False) == (ended.state, ended.run.preempt_requested)


def test_retry_with_latents_is_ready_to_decode() -> None:
    """A job of its own, at its first attempt, that decode and encode bring to its end as any other."""
    failed = t.fail(record_in(State.DECODING), 1, Failure.of(FailureCode.DECODE_FAILED, stage="decode"), NOW)
    own = object_ref("latents/default/own")
    new = t.retry(failed, make_job_id(NOW), latents=own, checkpoint=None, reason="kept", now=NOW)
    assert (State.DECODING, 1, 20, own, None, 0) == (
        new.state, new.run.attempt, new.run.step, new.run.latents, new.run.failure, new.run.failures
    )  # fmt: skip
    assert (failed.id, failed.request, "kept", 0.0) == (
        new.retry_of, new.request, new.run.reason, new.result.actual_gpu_s
    )  # fmt: skip
    done = t.succeed(t.finish_decode(new, 1, chunks=1, stage_s=1.0, now=NOW), 1, RESULT, stage_s=1.0, now=NOW)
    assert {"decode": 1.0, "encode": 1.0} == done.result.stage_s


def test_retry_without_latents_waits_for_a_group() -> None:
    """Its first dispatch is attempt 1, from the checkpoint if there is one."""
    kept = Checkpoint(object=object_ref("checkpoints/own"), step=6, fingerprint="fp")
    for checkpoint, step in ((kept, 6), (None, 0)):
        new = t.retry(
            record_in(State.FAILED), make_job_id(NOW), latents=None, checkpoint=checkpoint, reason="again", now=NOW
        )
        assert (State.QUEUED, 0, step, checkpoint) == (new.state, new.run.attempt, new.run.step, new.run.checkpoint)
        assert 1 == t.start(new, "g0", NOW).run.attempt


@pytest.mark.parametrize("state", [State.RUNNING, State.SUCCEEDED, State.CANCELLED, State.EXPIRED])
def test_only_a_failed_job_is_retried(state: State) -> None:
    """What succeeded or was cancelled is not made again by the way."""
    with pytest.raises(t.IllegalTransition):
        t.retry(record_in(state), make_job_id(NOW), latents=None, checkpoint=None, reason="", now=NOW)


def _other_request(record: JobRecord) -> JobRecord:
    return record.model_copy(update={"request": video_request(seed=8)})


def _fallen_attempt(record: JobRecord) -> JobRecord:
    return record.model_copy(update={"run": record.run.model_copy(update={"attempt": 0})})


def _other_origin(record: JobRecord) -> JobRecord:
    return record.model_copy(update={"retry_of": NEW_ID})


def _back_to_life(record: JobRecord) -> JobRecord:
    return record.model_copy(update={"run": record.run.model_copy(update={"state": State.QUEUED})})


@pytest.mark.parametrize(
    ("state", "forge"),
    [
        pytest.param(State.RUNNING, _other_request, id="request changed"),
        pytest.param(State.RUNNING, _other_origin, id="retry of another"),
        pytest.param(State.RUNNING, _fallen_attempt, id="attempt fell"),
        pytest.param(State.SUCCEEDED, _back_to_life, id="left a terminal state"),
    ],
)
def test_check_successor_refuses_a_forged_record(
    state: State, forge: Change | Callable[[JobRecord], JobRecord]
) -> None:
    """What the transitions cannot produce, a store does not take either."""
    record = record_in(state)
    with pytest.raises(t.IllegalTransition):
        t.check_successor(record, forge(record))  # type: ignore[call-arg]  # every forge here takes one argument
