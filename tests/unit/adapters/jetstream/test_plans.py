"""The configurations of streams and consumers, as values."""

from typing import Any

import pytest

from vitascope.adapters.jetstream.connection import _without_credentials
from vitascope.adapters.jetstream.consumers import plan_consumer
from vitascope.adapters.jetstream.topology import merge, plan
from vitascope.contracts.flow import Stage


def by_name(replicas: int = 1) -> dict[str, dict[str, Any]]:
    return {config["name"]: config for config in plan(replicas)}


def test_everything_fits_into_a_small_server() -> None:
    """All streams together reserve less than 8 GiB of files, and none is without a bound."""
    assert 8 * 1024**3 > sum(config["max_bytes"] for config in plan(1))
    assert all(config["max_bytes"] > 0 for config in plan(1))


def test_duplicate_window_is_never_longer_than_the_age() -> None:
    """The server refuses such a stream."""
    for config in plan(1):
        assert config.get("max_age", 0) == 0 or config["duplicate_window"] <= config["max_age"]


def test_ledger_forgets_no_job() -> None:
    """Records have no age, and a full ledger refuses instead of dropping the oldest."""
    jobs = by_name()["KV_VITASCOPE_JOBS"]
    assert ("new", 64) == (jobs["discard"], jobs["max_msgs_per_subject"])
    assert "max_age" not in jobs


def test_replicas_are_those_asked_for() -> None:
    """Every stream has as many as the setting says."""
    assert {3} == {config["num_replicas"] for config in plan(3)}


@pytest.mark.parametrize(
    ("present", "wanted", "kept"),
    [
        (10, 20, 20),
        (20, 10, 20),
        (-1, 10, -1),
        (10, -1, -1),
        (0, 10, 0),
    ],
    ids=["grows", "stays", "unbounded stays", "becomes unbounded", "zero is unbounded"],
)
def test_bounds_never_shrink(present: int, wanted: int, kept: int) -> None:
    """Of two bounds the larger is kept."""
    assert {"max_bytes": kept} == merge({"max_bytes": present}, {"max_bytes": wanted})


def test_merge_keeps_what_it_does_not_know() -> None:
    """Fields of the server or of other people stay."""
    assert {"a": 1, "discard": "new"} == merge({"a": 1, "discard": "old"}, {"discard": "new"})


def test_consumer_of_a_pool() -> None:
    """Whole, since a field that is left out falls back to the server's default."""
    assert {
        "name": "decode_p",
        "durable_name": "decode_p",
        "filter_subject": "vitascope.work.decode.p.*",
        "deliver_policy": "all",
        "ack_policy": "explicit",
        "ack_wait": 30_000_000_000,
        "max_deliver": -1,
        "max_ack_pending": 1000,
        "max_waiting": 512,
        "replay_policy": "instant",
    } == plan_consumer(Stage.DECODE, "p", None)


def test_consumer_of_a_group_goes_when_nobody_comes() -> None:
    """Names of groups may change with every pod: theirs do not stay for ever."""
    config = plan_consumer(Stage.DENOISE, "p", "g")
    assert "vitascope.work.denoise.p.g.*" == config["filter_subject"]
    assert 86_400_000_000_000 == config["inactive_threshold"]


@pytest.mark.parametrize(
    ("url", "safe"),
    [
        ("nats://u:p@h:4222", "nats://h:4222"),
        ("nats://h:4222", "nats://h:4222"),
        ("tls://token@[::1]:4222", "tls://[::1]:4222"),
    ],
    ids=["user and password", "none", "token"],
)
def test_addresses_are_shown_without_credentials(url: str, safe: str) -> None:
    """What stands in messages and logs gives nothing away."""
    assert safe == _without_credentials(url)
