"""Deliveries: their ids and bodies, when they are tried again, and how they end."""

import json
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooks import LIFE, delivery, job_event, subscription
from records import NOW, record_in
from vitascope.contracts.deliveries import (
    MAX_ATTEMPTS_KEPT,
    RETRY_FIRST_S,
    RETRY_MAX_S,
    Attempt,
    Delivery,
    DeliveryState,
    compute_retry_s,
    end_dead,
    make_delivery,
    make_delivery_id,
    name_event,
    note_failure,
    note_last,
    note_success,
    replay,
    supersede,
)
from vitascope.contracts.events import CloudEvent, make_job_event
from vitascope.contracts.flow import State
from vitascope.contracts.ids import read_job_time
from vitascope.contracts.webhooks import JOB_EVENTS

TARGET = subscription().id
TRIED = Attempt(at=NOW, ms=12, status_code=503)
HOUR = timedelta(hours=1)


@pytest.mark.parametrize("state", list(State))
def test_every_state_has_an_event(state: State) -> None:
    """By which a webhook can ask for it."""
    record = record_in(State.SUCCEEDED)
    record = record.model_copy(update={"run": record.run.model_copy(update={"state": state})})
    assert name_event(make_job_event(record, 3, NOW).type) in JOB_EVENTS


def test_copies_of_an_event_have_one_id() -> None:
    """Whenever they were announced; another target or state has another."""
    record = record_in(State.SUCCEEDED)
    first, later = make_job_event(record, 3, NOW), make_job_event(record, 9, NOW + HOUR)
    assert make_delivery_id(TARGET, first, NOW) == make_delivery_id(TARGET, later, NOW + HOUR)
    other = subscription().id
    running = make_job_event(record_in(State.RUNNING), 3, NOW)
    ids = {make_delivery_id(*pair, NOW) for pair in ((TARGET, first), (other, first), (TARGET, running))}
    assert 3 == len(ids)


def test_ids_sort_by_the_time_of_their_jobs() -> None:
    """So that the log can be shown in pages."""
    events = [job_event(now=NOW + minutes * timedelta(minutes=1)) for minutes in range(3)]
    ids = [make_delivery_id(TARGET, event, NOW) for event in events]
    assert sorted(ids) == ids
    assert NOW == read_job_time(events[0].subject or "")


def test_body_is_what_the_standard_recommends() -> None:
    """Type, timestamp and data, the data in the words of the API; nothing of the prompt."""
    event = job_event(State.FAILED)
    body = json.loads(delivery(TARGET, event).body)
    assert {"type": "job.failed", "timestamp": "2026-01-02T03:04:05Z"} == {k: body[k] for k in ("type", "timestamp")}
    assert {"id", "status", "attempt", "reason", "error"} == body["data"].keys()
    assert (event.subject, "failed", "denoise_failed") == (
        body["data"]["id"],
        body["data"]["status"],
        body["data"]["error"]["code"],
    )


def test_success_has_no_error() -> None:
    """`error` is null, and there all the same."""
    assert json.loads(delivery(TARGET).body)["data"]["error"] is None


def test_event_that_is_too_large_is_refused() -> None:
    """None of ours is."""
    event = CloudEvent(id="x", source="/s", type="dev.vitascope.job.failed.v1", data="x" * 20_000)
    with pytest.raises(ValueError, match="too large"):
        make_delivery(event, TARGET, "default", url=None, now=NOW, life=LIFE)


def test_stored_form_is_read_back() -> None:
    """With all that was tried."""
    row = note_failure(delivery(TARGET), TRIED, NOW, 0.5)
    assert row == Delivery.from_bytes(row.to_bytes())


def test_waits_grow_from_seconds_to_hours() -> None:
    """Without jitter; from the ninth on they are equal."""
    waits = [compute_retry_s(tries, 0.0) for tries in range(1, 12)]
    assert [5.0, 15.0, 45.0] == waits[:3]
    assert sorted(waits) == waits
    assert {RETRY_MAX_S} == set(waits[8:])


@given(tries=st.integers(1, 10**9), draw=st.floats(0, 1, exclude_max=True))
def test_every_wait_is_bounded(tries: int, draw: float) -> None:
    """However often it failed: no sooner than the first wait, no later than the longest and its jitter."""
    assert RETRY_FIRST_S <= compute_retry_s(tries, draw) <= 1.25 * RETRY_MAX_S


def test_failure_puts_it_off() -> None:
    """The wait counts from the end of the try."""
    row = note_failure(delivery(TARGET), TRIED, NOW + HOUR, 0.0)
    assert (DeliveryState.PENDING, NOW + HOUR + timedelta(seconds=5), 1, (TRIED,)) == (
        row.state,
        row.next_try,
        row.tries,
        row.attempts,
    )


def test_failing_for_days_ends() -> None:
    """After a few dozen tries at most, the last of them within its life."""
    row, now = delivery(TARGET), NOW
    for _ in range(100):
        row = note_failure(row, TRIED.model_copy(update={"at": now}), now, 0.99)
        if row.next_try is None:
            break
        now = row.next_try
    assert DeliveryState.DEAD is row.state
    assert row.reason is not None
    assert 10 < row.tries < 25
    assert now <= NOW + LIFE < now + timedelta(seconds=1.25 * RETRY_MAX_S)


def test_log_keeps_the_newest_tries() -> None:
    """Twenty of them; all are counted."""
    row = delivery(TARGET, give_up=NOW + 1000 * LIFE)
    for number in range(25):
        row = note_failure(row, Attempt(at=NOW, ms=number), NOW, 0.0)
    assert (25, list(range(5, 25))) == (row.tries, [attempt.ms for attempt in row.attempts])
    assert MAX_ATTEMPTS_KEPT == len(row.attempts)


@pytest.mark.parametrize(
    ("ended", "state", "has_reason"),
    [
        (note_success(delivery(TARGET), TRIED, NOW), DeliveryState.DELIVERED, False),
        (note_last(delivery(TARGET), TRIED, "Gone.", NOW), DeliveryState.DEAD, True),
        (end_dead(delivery(TARGET), "Deleted.", NOW), DeliveryState.DEAD, True),
        (supersede(delivery(TARGET), NOW), DeliveryState.SUPERSEDED, False),
    ],
    ids=["delivered", "gone", "dead", "superseded"],
)
def test_ends(ended: Delivery, state: DeliveryState, *, has_reason: bool) -> None:
    """None of them is due any more."""
    assert (state, None, NOW, has_reason) == (ended.state, ended.next_try, ended.ended, ended.reason is not None)


def test_replay_is_due_at_once_with_the_same_message() -> None:
    """A new life, the old tries before it."""
    dead = end_dead(note_failure(delivery(TARGET), TRIED, NOW, 0.0), "No.", NOW)
    again = replay(dead, NOW + 9 * LIFE, LIFE)
    assert (dead.event_id, dead.body, dead.attempts) == (again.event_id, again.body, again.attempts)
    assert (NOW + 9 * LIFE, NOW + 10 * LIFE, 0, True) == (again.next_try, again.give_up, again.tries, again.is_replay)
