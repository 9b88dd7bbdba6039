"""The end of a process in words."""

import pytest

from vitascope.local.child import describe_end


@pytest.mark.parametrize(
    ("expected", "status"),
    [
        pytest.param("ended with status 0", 0, id="clean"),
        pytest.param("ended with status 3", 3, id="failed"),
        pytest.param("was ended by SIGKILL", -9, id="killed"),
        pytest.param("was ended by signal 63", -63, id="real-time-signal"),
    ],
)
def test_end_is_described(expected: str, status: int) -> None:
    """Statuses and signals are told apart."""
    assert expected == describe_end(status)
