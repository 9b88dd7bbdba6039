"""The socket of a process's HTTP face."""

import pytest

from vitascope.runtime.listener import open_listener


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_listens_on_the_given_address_alone(host: str) -> None:
    """Not on every interface, which is what kserve would do."""
    with open_listener(host, 0) as listener:
        assert listener.getsockname()[0] == host


def test_taken_port_is_an_error() -> None:
    """Two processes cannot share a port by mistake."""
    with open_listener("127.0.0.1", 0) as first, pytest.raises(OSError, match="in use"):
        open_listener("127.0.0.1", first.getsockname()[1])
