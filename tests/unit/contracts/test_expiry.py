"""When files expire, and when records are forgotten."""

from datetime import datetime, timedelta

import pytest

from records import NOW, queued_record, record_in
from vitascope.contracts import transitions
from vitascope.contracts.expiry import DELETED, SCRATCH, Retention, compute_expiry, compute_forgetting
from vitascope.contracts.flow import State

WEEK, DAY = timedelta(days=7), timedelta(days=1)
KEPT = Retention(files=WEEK, record=DAY)
SHORT = Retention(files=timedelta(hours=1), record=DAY)


@pytest.mark.parametrize(
    ("state", "retention", "expected"),
    [
        pytest.param(State.QUEUED, KEPT, None, id="waits"),
        pytest.param(State.ENCODING, KEPT, None, id="alive"),
        pytest.param(State.SUCCEEDED, KEPT, NOW + WEEK, id="succeeded"),
        pytest.param(State.CANCELLED, KEPT, NOW + WEEK, id="cancelled"),
        pytest.param(State.FAILED, KEPT, NOW + SCRATCH, id="failed: as long as it can be tried again"),
        pytest.param(State.FAILED, SHORT, NOW + timedelta(hours=1), id="failed: no longer than a result"),
        pytest.param(State.EXPIRED, SHORT, NOW, id="expired: when it was"),
    ],
)
def test_the_moment_of_expiry(state: State, retention: Retention, expected: datetime | None) -> None:
    """From the end of the job, by how it ended."""
    assert expected == compute_expiry(record_in(state), retention)


@pytest.mark.parametrize(
    ("expected", "kept_days"),
    [(NOW + DAY / 2, 0.5), (NOW + WEEK, 30.0), (NOW + WEEK, None)],
    ids=["short", "long", "none"],
)
def test_a_tenants_own_retention_only_shortens(expected: datetime, kept_days: float | None) -> None:
    """The store's own rules remove what is older than the service keeps."""
    record = record_in(State.SUCCEEDED)
    record = record.model_copy(update={"admission": record.admission.model_copy(update={"kept_days": kept_days})})
    assert expected == compute_expiry(record, KEPT)


def test_an_end_before_the_beginning_is_a_bad_clock() -> None:
    """A process whose clock is a month behind does not make the result expire at once."""
    record = transitions.cancel(queued_record(), NOW - timedelta(days=30))
    assert NOW + WEEK == compute_expiry(record, KEPT)


def test_a_deleted_job_goes_at_once_and_its_record_a_day_later() -> None:
    """However long others are kept; quotas of a day count it until then."""
    long = Retention(files=WEEK, record=30 * DAY)
    cancelled = transitions.delete(queued_record(), NOW)
    assert NOW == compute_expiry(cancelled, long)
    assert NOW + DELETED == compute_forgetting(transitions.expire(cancelled, NOW), long)
    assert NOW + DELETED == compute_forgetting(transitions.delete(record_in(State.SUCCEEDED), NOW), long)
    soon = Retention(files=WEEK, record=timedelta(hours=1))
    assert NOW + timedelta(hours=1) == compute_forgetting(transitions.delete(record_in(State.SUCCEEDED), NOW), soon)


def test_only_an_expired_record_is_forgotten() -> None:
    """A day after it expired; an ended one never."""
    assert NOW + DAY == compute_forgetting(record_in(State.EXPIRED), KEPT)
    assert [None] * 3 == [compute_forgetting(record_in(s), KEPT) for s in (State.QUEUED, State.SUCCEEDED, State.FAILED)]
