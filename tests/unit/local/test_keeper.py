"""When a child is started again, and when no more."""

import pytest

from vitascope.local.keeper import Restarts

RESTARTS = Restarts(max_failures=5, first_delay_s=0.5, max_delay_s=3.0, stable_s=60.0)


def test_delay_grows_to_its_bound_and_then_gives_up() -> None:
    """Each repeated failure doubles the wait up to the bound; the last one ends it."""
    assert [0.5, 1.0, 2.0, 3.0, None] == [RESTARTS.plan_delay_s(failures) for failures in (1, 2, 3, 4, 5)]


@pytest.mark.parametrize(
    ("expected", "before", "ready_for_s", "has_hung"),
    [
        pytest.param(1, 0, 0.0, False, id="first"),
        pytest.param(4, 3, 0.0, False, id="never-ready"),
        pytest.param(4, 3, 59.9, False, id="not-long-enough"),
        pytest.param(1, 3, 60.0, False, id="stable"),
        pytest.param(5, 4, 5.0, False, id="last"),
        pytest.param(4, 4, 5.0, True, id="hung-is-never-the-last"),
    ],
)
def test_failures_are_forgotten_after_a_stable_time(
    expected: int,
    before: int,
    ready_for_s: float,
    has_hung: bool,  # noqa: FBT001 (a parameter of the table)
) -> None:
    """Only failures without a stable time between them add up, and a hang alone never ends the run."""
    assert expected == RESTARTS.compute_failures(before, ready_for_s=ready_for_s, has_hung=has_hung)
