"""Ports on the loopback address, settled against real sockets."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from vitascope.local.errors import PortInUseError
from vitascope.local.ports import HIGHEST_PORT, LOWEST_PORT, choose_free_ports, is_port_free, settle_ports

NAMES = ("nats", "s3")


@pytest.fixture(params=["127.0.0.1", "0.0.0.0"], ids=["loopback", "all-addresses"])
def taken_port(request: pytest.FixtureRequest) -> Iterator[int]:
    with socket.create_server((request.param, choose_free_ports(1)[0])) as listener:
        yield listener.getsockname()[1]


def test_chosen_ports_differ_and_lie_outside_the_systems_own_range() -> None:
    """No two are alike, and none can be taken by an outgoing connection."""
    ports = choose_free_ports(50)
    assert len(set(ports)) == 50
    assert all(LOWEST_PORT <= port <= HIGHEST_PORT for port in ports)
    assert all(is_port_free(port) for port in ports)


def test_port_of_a_server_that_has_just_gone_is_free() -> None:
    """A connection's remains (TIME_WAIT) do not block the port that a restart wants again."""
    (port,) = choose_free_ports(1)
    with socket.create_server(("127.0.0.1", port)) as listener, socket.create_connection(("127.0.0.1", port)) as client:
        server_side, _ = listener.accept()
        server_side.close()  # the side that closes first keeps the remains
        assert client.recv(1) == b""
    assert is_port_free(port)


def test_ports_stay_the_same(tmp_path: Path) -> None:
    """A second run finds its servers where they were."""
    first = settle_ports(tmp_path / "ports.json", NAMES, {})
    assert set(NAMES) == set(first)
    assert first == settle_ports(tmp_path / "ports.json", NAMES, {})


def test_kept_port_that_is_taken_is_replaced(tmp_path: Path, taken_port: int) -> None:
    """Only the taken one changes."""
    (tmp_path / "ports.json").write_text(f'{{"nats": {taken_port}, "s3": 20001}}')
    settled = settle_ports(tmp_path / "ports.json", NAMES, {})
    assert settled["nats"] != taken_port
    assert settled["s3"] == 20001


def test_wanted_port_is_used_and_remembered(tmp_path: Path) -> None:
    """The user's choice goes before the kept one, without taking another's place."""
    before = settle_ports(tmp_path / "ports.json", NAMES, {})
    settled = settle_ports(tmp_path / "ports.json", NAMES, {"s3": before["nats"]})
    assert settled["s3"] == before["nats"] != settled["nats"]
    assert settled == settle_ports(tmp_path / "ports.json", NAMES, {})


def test_wanted_port_that_is_taken_is_refused(tmp_path: Path, taken_port: int) -> None:
    """It is an error that says which port and what to do, and nothing is remembered."""
    with pytest.raises(PortInUseError, match=f"The port {taken_port} for s3 cannot be used.*choose another port"):
        settle_ports(tmp_path / "ports.json", NAMES, {"s3": taken_port})
    assert not (tmp_path / "ports.json").exists()
