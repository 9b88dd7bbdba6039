"""Expected start and the reason for waiting, pure."""

from datetime import timedelta

import pytest

from records import NOW
from vitascope.contracts.pools import GroupRow, GroupState
from vitascope.ingress.estimate import compute_start, explain_wait
from vitascope.runtime.job_index import QueuePlace


def _group(size: int = 1, state: GroupState = GroupState.BUSY) -> GroupRow:
    return GroupRow(pool="default", group="g0", size=size, models=("m",), state=state, holder="h", seen=NOW)


@pytest.mark.parametrize(
    ("place", "groups", "after_s"),
    [
        pytest.param(QueuePlace(1, 0.0), [_group(state=GroupState.IDLE)], 0, id="next-and-free"),
        pytest.param(QueuePlace(1, 9.0), [_group(), _group(state=GroupState.IDLE)], 0, id="next-and-one-free"),
        pytest.param(QueuePlace(1, 9.0), [_group()], 9, id="next-and-busy"),
        pytest.param(QueuePlace(5, 60.0), [_group(4), _group(2)], 10, id="six-gpus"),
        pytest.param(QueuePlace(2, 60.0), [_group(4, GroupState.IDLE), _group(2)], 10, id="not-next"),
    ],
)
def test_the_work_ahead_is_shared_by_all_gpus(place: QueuePlace, groups: list[GroupRow], after_s: float) -> None:
    """GPU-seconds ahead over GPUs; at once if the job is next and a group is free."""
    assert NOW + timedelta(seconds=after_s) == compute_start(place, groups, NOW)


def test_without_a_group_nobody_knows() -> None:
    """None, and the words say why."""
    assert compute_start(QueuePlace(1, 0.0), [], NOW) is None
    assert "No GPU group of the pool p is up; the job starts when one is." == explain_wait(QueuePlace(9, 0.0), [], "p")
