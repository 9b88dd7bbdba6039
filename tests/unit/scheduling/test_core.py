"""The pure core: whole plans from small snapshots."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitascope.contracts.flow import Stage
from vitascope_operator.scheduling.core import Dispatch, GiveUp, Repair, Requeue, plan
from vitascope_operator.scheduling.snapshot import AssignedJob, FreeGroup, QueuedJob, QueueKey, Snapshot

WAN = QueueKey("p", 1, "wan")
WIDE = QueueKey("p", 4, "wan")
LTX = QueueKey("p", 1, "ltx")


def group(name: str, size: int = 1, models: tuple[str, ...] = ("wan",), pool: str = "p") -> FreeGroup:
    return FreeGroup(pool, name, size, frozenset(models))


def lines(*jobs: tuple[str, QueueKey]) -> dict[QueueKey, tuple[QueuedJob, ...]]:
    keys = dict.fromkeys(key for _, key in jobs)
    return {key: tuple(QueuedJob(job, key) for job, own in jobs if own == key) for key in keys}


@pytest.mark.parametrize(
    ("expected", "queues", "free"),
    [
        pytest.param([], {}, [group("a")], id="nothing waits"),
        pytest.param([], lines(("j1", WAN)), [], id="nothing is free"),
        pytest.param([("j1", "a")], lines(("j1", WAN), ("j2", WAN)), [group("a")], id="oldest first"),
        pytest.param([("j2", "a")], lines(("j1", WIDE), ("j2", WAN)), [group("a")], id="another line does not block"),
        pytest.param([], lines(("j1", LTX)), [group("a")], id="model not there"),
        pytest.param([], lines(("j1", WAN)), [group("a", pool="q")], id="other pool"),
        pytest.param(
            [("j1", "b"), ("j2", "a")],
            lines(("j1", WAN), ("j2", LTX)),
            [group("a", models=("wan", "ltx")), group("b")],
            id="the versatile group stays free",
        ),
        pytest.param(
            [("j1", "a"), ("j2", "b")], lines(("j1", WIDE), ("j2", WAN)), [group("a", 4), group("b")], id="sizes"
        ),
    ],
)
def test_dispatches(
    expected: list[tuple[str, str]], queues: dict[QueueKey, tuple[QueuedJob, ...]], free: list[FreeGroup]
) -> None:
    """Who starts where."""
    planned = plan(Snapshot(queues, tuple(free)))
    assert [Dispatch(job, "p", name) for job, name in expected] == list(planned)


def test_losses_come_first_and_late_jobs_never_start() -> None:
    """A whole plan: requeue, give up, dispatch what may start, repair."""
    snapshot = Snapshot(
        queues=lines(("j1", WAN), ("j2", WAN)),
        free=(group("a"),),
        late=("j1",),
        lost=(AssignedJob("j0", 3, "g", "gone"),),
        silent=(("j9", Stage.DECODE),),
    )
    expected = (Requeue("j0", 3, "gone"), GiveUp("j1"), Dispatch("j2", "p", "a"), Repair("j9", Stage.DECODE))
    assert expected == plan(snapshot)


@given(
    st.lists(st.sampled_from([WAN, WIDE, LTX]), max_size=12),
    st.lists(st.tuples(st.sampled_from([1, 4]), st.sets(st.sampled_from(["wan", "ltx"]), min_size=1)), max_size=6),
)
def test_no_group_and_no_job_is_used_twice(keys: list[QueueKey], shapes: list[tuple[int, set[str]]]) -> None:
    """Whatever waits and whatever is free: each at most once, only where it fits, and nothing fitting is left over."""
    queues = lines(*((f"j{index:02d}", key) for index, key in enumerate(keys)))
    free = tuple(FreeGroup("p", f"g{index}", size, frozenset(names)) for index, (size, names) in enumerate(shapes))
    planned = [action for action in plan(Snapshot(queues, free)) if isinstance(action, Dispatch)]
    key_of = {job.job: key for key, line in queues.items() for job in line}
    by_name = {candidate.group: candidate for candidate in free}
    assert len(planned) == len({action.job for action in planned}) == len({action.group for action in planned})
    assert all(by_name[action.group].can_run(key_of[action.job]) for action in planned)
    idle = set(by_name) - {action.group for action in planned}
    waiting = set(key_of) - {action.job for action in planned}
    assert not any(by_name[name].can_run(key_of[job]) for name in idle for job in waiting)
