"""Which objects a record still has a use for."""

import pytest

from records import record_in
from unit.publish.kept import name_files, with_files
from vitascope.contracts import objects
from vitascope.contracts.flow import State
from vitascope.contracts.jobs import JobRecord
from vitascope.contracts.objects import ObjectClass
from vitascope.publish.needs import is_needed

ALL = {"inputs", "checkpoints", "latents", "frames", "outputs"}


def _needed(record: JobRecord, attempt: int = 1) -> set[str]:
    return {key.split("/")[0] for key in name_files(record, attempt) if is_needed(record, key)}


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        pytest.param(State.QUEUED, ALL, id="queued"),
        pytest.param(State.RUNNING, ALL, id="running"),
        pytest.param(State.DECODING, ALL, id="decoding"),
        pytest.param(State.ENCODING, ALL, id="encoding"),
        pytest.param(State.SUCCEEDED, {"inputs", "outputs"}, id="succeeded: what came out"),
        pytest.param(State.FAILED, {"inputs", "checkpoints", "latents"}, id="failed: what another try goes on from"),
        pytest.param(State.CANCELLED, set(), id="cancelled"),
        pytest.param(State.EXPIRED, set(), id="expired"),
    ],
)
def test_by_state(expected: set[str], state: State) -> None:
    """Of the objects that the record points to, and their neighbours."""
    assert expected == _needed(with_files(record_in(state)))


def test_a_live_job_needs_of_old_attempts_only_what_it_points_to() -> None:
    """Its checkpoint is of the first attempt; the fourth is at work; the fifth may be a ledger ahead of us."""
    record = with_files(record_in(State.RUNNING), attempt=4)
    assert {"inputs", "checkpoints"} == _needed(record, 1)
    assert {"inputs"} == _needed(record, 2)
    assert ALL == _needed(record, 4) == _needed(record, 5)


def test_an_ended_job_needs_nothing_that_it_does_not_point_to() -> None:
    """The same file of another attempt is of no use."""
    assert {"inputs"} == _needed(with_files(record_in(State.SUCCEEDED)), 2)
    assert {"inputs"} == _needed(with_files(record_in(State.FAILED)), 2)


def test_copies_and_foreign_keys_are_not_judged() -> None:
    """Not even for a job that needs nothing."""
    record = record_in(State.EXPIRED)
    assert is_needed(record, objects.record_key(record))
    assert is_needed(record, f"{ObjectClass.OUTPUTS}/readme.txt")
