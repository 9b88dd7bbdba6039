"""The dispatcher's view: what a change does to what may happen next."""

from datetime import datetime, timedelta

import pytest

from records import NOW, queued_record, record_in
from vitascope.contracts import transitions
from vitascope.contracts.flow import Stage, State
from vitascope.contracts.jobs import JobRecord
from vitascope.contracts.pools import GroupRow, GroupState
from vitascope.runtime.ports import Stamped
from vitascope_operator.scheduling.snapshot import FreeGroup
from vitascope_operator.scheduling.view import REPAIR_AFTER_S, FleetView

LEASE_S = 15.0


def later(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def row(state: GroupState = GroupState.IDLE, *, holder: str = "h1", **changes: object) -> GroupRow:
    plain = {"pool": "default", "group": "g0", "models": ("tiny-wan",), "state": state, "holder": holder, "seen": NOW}
    return GroupRow.model_validate(plain | changes)


@pytest.fixture
def view() -> FleetView:
    return FleetView(LEASE_S, since=NOW)


def waiting(view: FleetView, now: datetime = NOW) -> list[str]:
    return [job.job for line in view.snapshot(now).queues.values() for job in line]


def test_queued_jobs_wait_in_order_of_acceptance(view: FleetView) -> None:
    """Whatever the order of the news; and only as many as could start are listed."""
    records = [queued_record(later(i)) for i in range(3)]
    view.note_group(row(), NOW)
    view.note_group(row(group="g1"), NOW)
    for revision, record in enumerate(reversed(records)):
        view.note_job(Stamped(record, revision), NOW)
    assert [records[0].id, records[1].id] == waiting(view)


def test_old_news_changes_nothing(view: FleetView) -> None:
    """The feed may repeat itself after a restart."""
    record = queued_record()
    view.note_group(row(), NOW)
    view.note_job(Stamped(transitions.cancel(record, NOW), 2), NOW)
    view.note_job(Stamped(transitions.start(record, "g0", NOW), 4), NOW)
    view.note_job(Stamped(record, 3), NOW)
    assert [] == waiting(view)


def test_requeued_job_waits_once(view: FleetView) -> None:
    """A job that ran in between has one place in the line."""
    view.note_group(row(), NOW)
    view.note_group(row(group="g1"), NOW)
    record = queued_record()
    running = transitions.start(record, "g9", NOW)
    for revision, state in enumerate((record, running, transitions.requeue(running, 1, "drained"))):
        view.note_job(Stamped(state, revision), NOW)
    assert [record.id] == waiting(view)


def test_delayed_job_waits_for_its_time(view: FleetView) -> None:
    """`not_before` holds a job back, and the view knows when to look again."""
    view.note_group(row(), NOW)
    running = record_in(State.RUNNING)
    record = transitions.requeue(running, 1, "failed", not_before=later(5), failed=True)
    view.note_job(Stamped(record, 1), NOW)
    assert [] == waiting(view)
    assert later(5) == view.next_due(NOW)
    assert [record.id] == waiting(view, later(5))


@pytest.mark.parametrize(
    ("free", "state", "finishing"),
    [
        pytest.param(True, GroupState.IDLE, True, id="only latents still go out"),
        pytest.param(False, GroupState.IDLE, False, id="dispatched but not begun"),
        pytest.param(False, GroupState.BUSY, True, id="busy"),
        pytest.param(False, GroupState.DRAINING, True, id="draining"),
        pytest.param(False, GroupState.STARTING, True, id="starting"),
    ],
)
def test_when_a_group_is_free(view: FleetView, free: bool, state: GroupState, finishing: bool) -> None:  # noqa: FBT001 (a parametrised value)
    """Free means that its GPUs wait, not that it has nothing left to upload."""
    record = record_in(State.RUNNING)
    view.note_job(Stamped(record, 1), NOW)
    view.note_group(row(state, finishing=(record.id,) if finishing else ()), NOW)
    expected = (FreeGroup("default", "g0", 1, frozenset({"tiny-wan"})),) if free else ()
    assert expected == view.snapshot(NOW).free


def lost(view: FleetView, now: datetime) -> list[tuple[str, str]]:
    return [(assigned.job, assigned.why) for assigned in view.snapshot(now).lost]


def test_silent_group_loses_its_job_after_the_lease(view: FleetView) -> None:
    """Not before, and the reason says what happened."""
    record = record_in(State.RUNNING)
    view.note_job(Stamped(record, 1), NOW)
    view.note_group(row(GroupState.BUSY), NOW)
    assert [] == lost(view, later(LEASE_S - 1))
    assert [(record.id, "its GPU group was silent for 15 s")] == lost(view, later(LEASE_S))


def test_restarted_group_loses_its_job_at_once(view: FleetView) -> None:
    """Another process under the same name knows nothing of the old one's work."""
    record = record_in(State.RUNNING)
    view.note_job(Stamped(record, 1), NOW)
    view.note_group(row(GroupState.BUSY), NOW)
    view.note_group(row(holder="h2"), later(1))
    assert [(record.id, "its GPU group restarted")] == lost(view, later(1))


def test_unknown_group_is_given_the_lease_time(view: FleetView) -> None:
    """A dispatcher that has just taken over does not call a group lost that it has not had time to hear."""
    record = record_in(State.RUNNING)
    view.note_job(Stamped(record, 1), NOW)
    assert [] == lost(view, later(LEASE_S - 1))
    assert later(LEASE_S) == max(view.next_due(later(LEASE_S - 1)) or NOW, later(LEASE_S))
    assert [(record.id, "its GPU group is not there")] == lost(view, later(LEASE_S))


def test_group_that_left_loses_what_it_did_not_hand_back(view: FleetView) -> None:
    """A row taken away is as good as a lease run out."""
    record = record_in(State.RUNNING)
    view.note_job(Stamped(record, 1), NOW)
    view.note_group(row(GroupState.DRAINING), NOW)
    view.note_group_gone("default.g0")
    assert [(record.id, "its GPU group left")] == lost(view, later(1))


def test_start_deadline_counts_only_before_the_first_start(view: FleetView) -> None:
    """A job that has started and came back is not given up."""
    request = queued_record()
    fresh = request.model_copy(update={"run": request.run.model_copy(update={"start_deadline": later(5)})})
    started = transitions.requeue(transitions.start(fresh, "g0", NOW), 1, "preempted")
    other = queued_record(later(1))
    late = other.model_copy(update={"run": other.run.model_copy(update={"start_deadline": later(5)})})
    view.note_job(Stamped(started, 1), NOW)
    view.note_job(Stamped(late, 2), NOW)
    assert (late.id,) == view.snapshot(later(5)).late


@pytest.mark.parametrize(
    ("state", "stage"),
    [(State.RUNNING, Stage.DENOISE), (State.DECODING, Stage.DECODE), (State.ENCODING, Stage.ENCODE)],
    ids=str,
)
def test_silent_job_is_looked_after_again_and_again(view: FleetView, state: State, stage: Stage) -> None:
    """A live record that does not change is checked for its event at a steady pace."""
    record = record_in(state)
    view.note_job(Stamped(record, 1), NOW)
    checks = [view.snapshot(later(REPAIR_AFTER_S * n)).silent for n in range(3)]
    assert [(), ((record.id, stage),), ((record.id, stage),)] == checks


def test_job_that_its_group_reports_is_not_silent(view: FleetView) -> None:
    """A long step is no reason to look for the event."""
    record = record_in(State.RUNNING)
    view.note_job(Stamped(record, 1), NOW)
    view.note_group(row(GroupState.BUSY, job=record.id, attempt=1), NOW)
    assert () == view.snapshot(later(REPAIR_AFTER_S)).silent


def test_ended_jobs_leave_nothing_behind(view: FleetView) -> None:
    """The view holds live jobs only."""
    record: JobRecord = record_in(State.ENCODING)
    view.note_job(Stamped(record, 1), NOW)
    view.note_job(Stamped(record_in(State.CANCELLED).model_copy(update={"id": record.id}), 2), NOW)
    assert None is view.get(record.id)
    assert None is view.next_due(NOW)


def test_outage_of_our_own_makes_nobody_silent(view: FleetView) -> None:
    """Cut off from the bus, the dispatcher hears no group; each is given the lease time anew afterwards."""
    record = record_in(State.RUNNING)
    view.note_job(Stamped(record, 1), NOW)
    view.note_group(row(GroupState.BUSY), NOW)
    view.forgive(later(LEASE_S * 2))
    assert [] == lost(view, later(LEASE_S * 3 - 1))
    assert [record.id] == [job for job, _ in lost(view, later(LEASE_S * 3))]
