"""Withheld: the end of a job whose clip is finished and may not be seen."""

from datetime import timedelta

import pytest

from records import NOW, RESULT, record_in
from vitascope.contracts import transitions as t
from vitascope.contracts.events import make_job_event
from vitascope.contracts.failures import Failure, FailureCode
from vitascope.contracts.flow import TERMINAL, State
from vitascope.contracts.jobs import JobRecord
from vitascope.contracts.objects import job_prefix
from vitascope.publish.needs import is_needed
from vitascope.runtime.leftovers import MADE_BY_STAGES, list_referenced, plan_removal

WHY = Failure.of(FailureCode.OUTPUT_WITHHELD, "It was taken for fruit.", stage="encode")
LATER = NOW + timedelta(seconds=5)


def withheld() -> JobRecord:
    return t.withhold(record_in(State.ENCODING), 1, WHY, stage_s=2.0, now=LATER)


def test_it_says_why_and_costs_nothing() -> None:
    """The GPU time stays on the record; nothing is billed, and there is no file."""
    record = withheld()
    assert (State.WITHHELD, WHY, LATER) == (record.state, record.run.failure, record.times.finished)
    assert (1.0, 0.0) == (record.result.actual_gpu_s, record.result.billed_units)
    assert 2.0 == record.result.stage_s["encode"]
    assert (None, None) == (record.result.output, record.result.thumbnail)
    t.check_successor(record_in(State.ENCODING).model_copy(update={"id": record.id}), record)


def test_a_job_that_succeeds_is_billed_its_price() -> None:
    """And no other: until then, and whenever it ends otherwise, it is nothing."""
    succeeded = t.succeed(record_in(State.ENCODING), 1, RESULT, stage_s=1.0, now=NOW)
    assert succeeded.admission.price_units == succeeded.result.billed_units > 0
    others = TERMINAL - {State.SUCCEEDED, State.EXPIRED, State.REFUSED, State.WITHHELD}
    assert {0.0} == {record_in(state).result.billed_units for state in others}


def test_stale_attempt_withholds_nothing() -> None:
    """The fence holds here, too."""
    with pytest.raises(t.StaleAttempt):
        t.withhold(record_in(State.ENCODING), 2, WHY, stage_s=1.0, now=NOW)


@pytest.mark.parametrize("state", [State.DECODING, State.SUCCEEDED, State.CANCELLED])
def test_only_a_clip_in_hand_is_withheld(state: State) -> None:
    """Not before all of it is decoded, and not what has ended."""
    with pytest.raises(t.TransitionError):
        t.withhold(record_in(state), 1, WHY, stage_s=1.0, now=NOW)


def test_it_is_an_end() -> None:
    """It cannot be cancelled or tried again; it expires."""
    record = withheld()
    with pytest.raises(t.IllegalTransition):
        t.cancel(record, NOW)
    with pytest.raises(t.IllegalTransition):
        t.retry(record, "vj_01KDVDNA00W52FRFC30J36F36P", latents=None, checkpoint=None, reason="", now=NOW)
    assert State.EXPIRED is t.expire(record, NOW).state
    assert record is t.rebuild(record)


def test_no_file_of_it_is_kept() -> None:
    """Whoever clears up takes all that stages made, also what the record points to, and the janitor its inputs."""
    record = withheld()
    assert record.run.latents is not None
    assert [job_prefix(kind, record) for kind in MADE_BY_STAGES] == plan_removal(record, 1, ())
    assert frozenset() == list_referenced(record)
    kept = [f"{kind}/default/{record.id}/1/x" for kind in ("inputs", "latents", "outputs")]
    assert [False] * 3 == [is_needed(record, key) for key in kept]


def test_its_event_names_the_code() -> None:
    """Who follows the job learns it from there."""
    event = make_job_event(withheld(), 7, NOW)
    assert "dev.vitascope.job.withheld.v1" == event.type
    assert isinstance(event.data, dict)
    failure = event.data["failure"]
    assert isinstance(failure, dict)
    assert "output_withheld" == failure["code"]
