"""Seconds a step: outliers count nothing, changes are followed."""

import pytest

from vitascope.denoise.pace import StepPace


def test_no_step_no_pace() -> None:
    """Nothing is made up before the first step."""
    assert StepPace().step_s is None


def test_first_step_is_the_average() -> None:
    """One step is all that is known."""
    assert StepPace().add(2.0) == 2.0


def test_single_slow_step_counts_nothing() -> None:
    """A median of equal steps around it stays."""
    pace = StepPace()
    averages = [pace.add(seconds) for seconds in (1.0, 1.0, 1.0, 60.0, 1.0, 1.0)]
    assert averages == [1.0] * 6


def test_lasting_change_is_followed() -> None:
    """Thirty steps of another length leave the old one behind."""
    pace = StepPace()
    for seconds in [1.0] * 10 + [2.0] * 30:
        pace.add(seconds)
    assert pytest.approx(2.0, rel=0.01) == pace.step_s
