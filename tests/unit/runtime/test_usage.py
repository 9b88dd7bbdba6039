"""What tenants use: counted job by job, forgotten after a day."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from records import NOW, record_in
from vitascope.contracts.flow import State
from vitascope.contracts.jobs import JobRecord
from vitascope.runtime.job_index import JobIndex
from vitascope.runtime.ports import Stamped
from vitascope.runtime.usage import DAY, Usage, UsageIndex, compute_job_usage

SECOND = timedelta(seconds=1)


def make_record(state: State, *, gpu_s: float = 0.0, estimate: float = 2.0, ago: timedelta = SECOND) -> JobRecord:
    """A job whose end, if it has one, was so long ago."""
    record = record_in(state, NOW - ago)
    admission = record.admission.model_copy(update={"estimated_gpu_s": estimate})
    result = record.result.model_copy(update={"actual_gpu_s": gpu_s})
    times = record.times.model_copy(update={"finished": NOW - ago if record.is_terminal else None})
    return record.model_copy(update={"admission": admission, "result": result, "times": times})


def measure(*records: JobRecord) -> Usage:
    index = JobIndex()
    for revision, record in enumerate(records, 1):
        index.apply(Stamped(record, revision))
    return index.usage.measure("default", NOW)


@pytest.mark.parametrize(
    ("expected", "record"),
    [
        pytest.param(Usage(1, 1, 2.0), make_record(State.QUEUED), id="queued"),
        pytest.param(Usage(1, 0, 2.0), make_record(State.RUNNING, gpu_s=1.0), id="running"),
        pytest.param(Usage(1, 0, 5.0), make_record(State.RUNNING, gpu_s=5.0), id="longer-than-estimated"),
        pytest.param(Usage(1, 0, 2.0), make_record(State.ENCODING, gpu_s=2.0), id="encoding"),
        pytest.param(Usage(spent_gpu_s=3.0), make_record(State.SUCCEEDED, gpu_s=3.0), id="succeeded"),
        pytest.param(Usage(spent_gpu_s=1.0), make_record(State.FAILED, gpu_s=1.0), id="failed"),
        pytest.param(Usage(spent_gpu_s=1.0), make_record(State.CANCELLED, gpu_s=1.0), id="cancelled"),
        pytest.param(Usage(), make_record(State.CANCELLED), id="cancelled-before-its-start"),
        pytest.param(Usage(spent_gpu_s=3.0), make_record(State.SUCCEEDED, gpu_s=3.0, ago=DAY), id="a-day-ago"),
        pytest.param(Usage(), make_record(State.SUCCEEDED, gpu_s=3.0, ago=DAY + SECOND), id="longer-ago"),
    ],
)
def test_a_job_counts_by_its_state(expected: Usage, record: JobRecord) -> None:
    """Live jobs with what they are estimated at, ended ones with what they used, for a day."""
    assert expected == measure(record)


def test_a_tenants_use_is_its_own() -> None:
    """Another one's jobs do not count."""
    record = make_record(State.QUEUED)
    stranger = record.model_copy(update={"request": record.request.model_copy(update={"tenant": "other"})})
    assert Usage() == measure(stranger)


def test_a_job_counts_once_however_often_it_changes() -> None:
    """Queued, running, succeeded, expired: what it used stays, nothing is counted twice."""
    record = make_record(State.QUEUED)
    changes = [
        make_record(state, gpu_s=gpu_s).model_copy(update={"id": record.id})
        for state, gpu_s in [(State.RUNNING, 1.0), (State.SUCCEEDED, 3.0), (State.EXPIRED, 3.0)]
    ]
    assert Usage(spent_gpu_s=3.0) == measure(record, *changes)


def test_a_job_that_ended_long_ago_may_be_forgotten_later() -> None:
    """Its row has gone with its day; taking it out again takes out nobody else's."""
    usage = UsageIndex()
    old, new = (compute_job_usage(make_record(State.SUCCEEDED, gpu_s=1.0, ago=ago)) for ago in (DAY, SECOND))
    usage.add(old)
    usage.add(new)
    assert Usage(spent_gpu_s=1.0) == usage.measure("default", NOW + SECOND)
    usage.remove(old)
    assert Usage(spent_gpu_s=1.0) == usage.measure("default", NOW + SECOND)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 4),
            st.sampled_from([state for state in State if state not in {State.REFUSED, State.WITHHELD}]),
            st.floats(0, 1e6, allow_subnormal=False),
            st.integers(0, 100_000),
        ),
        max_size=40,
    )
)
def test_any_order_of_changes_gives_the_sum_of_what_is_there(changes: list[tuple[int, State, float, int]]) -> None:
    """Counted job by job it is the same as counted anew from the newest record of each."""
    index, newest = JobIndex(), dict[str, JobRecord]()
    for revision, (job, state, gpu_s, ago_s) in enumerate(changes, 1):
        made = make_record(state, gpu_s=gpu_s, ago=timedelta(seconds=ago_s))
        record = made.model_copy(update={"id": f"vj_{job:026d}"})
        newest[record.id] = record
        index.apply(Stamped(record, revision))
    used = [compute_job_usage(record) for record in newest.values()]
    usage = index.usage.measure("default", NOW)
    assert sum(one.is_live for one in used) == usage.live
    assert sum(one.is_queued for one in used) == usage.queued
    assert sum(one.gpu_s for one in used if one.is_live) == pytest.approx(usage.live_gpu_s, abs=1e-3)
    recent = sum(one.gpu_s for one in used if one.ended is not None and one.ended >= NOW - DAY)
    assert recent == pytest.approx(usage.spent_gpu_s, abs=1e-3)
