"""The streams and buckets on a real server."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from records import queued_record
from servers import running_nats
from vitascope.adapters.jetstream import Connection, JetStreamLedger, ensure, topology
from vitascope.adapters.jetstream.api import call
from vitascope.contracts.failures import FailureCode, VitascopeError


@pytest.fixture
async def bare(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Connection]:
    async with (
        running_nats(tmp_path_factory.mktemp("bare")) as server,
        Connection(server.url) as connection,
    ):
        yield connection


async def configs(connection: Connection) -> dict[str, dict[str, object]]:
    streams = (await call(connection, "STREAM.LIST"))["streams"]
    return {stream["config"]["name"]: stream["config"] for stream in streams}


async def test_all_streams_are_made_and_bounded(bare: Connection) -> None:
    """Every stream has a largest size, of itself and of a message."""
    created = await ensure(bare)
    made = await configs(bare)
    assert set(created) == set(made)
    assert {config["name"] for config in topology.plan(1)} == set(made)
    assert all(config["max_bytes"] > 0 and config["max_msg_size"] > 0 for config in made.values())  # type: ignore[operator]


async def test_second_time_changes_nothing(bare: Connection) -> None:
    """What is as it should be is left alone."""
    await ensure(bare)
    before = await configs(bare)
    assert all(before[config["name"]] == topology.merge(before[config["name"]], config) for config in topology.plan(1))
    assert [] == await ensure(bare)
    assert before == await configs(bare)


async def test_many_at_once_make_each_stream_once(bare: Connection) -> None:
    """Several processes that start together do no harm to each other."""
    await asyncio.gather(*(ensure(bare) for _ in range(5)))
    assert {config["name"] for config in topology.plan(1)} == set(await configs(bare))


async def test_ledger_of_an_older_release_learns_to_forget(bare: Connection) -> None:
    """A bucket that was made without times to live is changed in place, and its records stay."""
    older = next(config for config in topology.plan(1) if config["name"] == "KV_VITASCOPE_JOBS") | {
        "allow_msg_ttl": False
    }
    await call(bare, "STREAM.CREATE.KV_VITASCOPE_JOBS", older)
    ledger = JetStreamLedger(bare)
    kept, forgotten = await ledger.create(queued_record()), await ledger.create(queued_record())
    assert "KV_VITASCOPE_JOBS" not in await ensure(bare)
    await ledger.forget(forgotten)
    assert kept == await ledger.get(kept.record.id)


async def test_raised_bound_and_own_field_stay_and_lowered_bound_is_cured(bare: Connection) -> None:
    """An operator's larger bound and description survive; what an older release had smaller grows."""
    await ensure(bare)
    work = (await configs(bare))["VITASCOPE_WORK"]
    larger = 2 * topology.plan(1)[0]["max_bytes"]
    await call(bare, "STREAM.UPDATE.VITASCOPE_WORK", {**work, "max_bytes": larger, "max_msgs": 10, "description": "x"})
    await ensure(bare)
    now = (await configs(bare))["VITASCOPE_WORK"]
    assert (larger, work["max_msgs"], "x") == (now["max_bytes"], now["max_msgs"], now["description"])


async def test_stream_that_cannot_be_changed_is_an_error(bare: Connection) -> None:
    """A stream of another kind is neither deleted nor taken as good."""
    await call(bare, "STREAM.CREATE.VITASCOPE_WORK", {"name": "VITASCOPE_WORK", "subjects": ["vitascope.work.>"]})
    with pytest.raises(VitascopeError, match="VITASCOPE_WORK") as caught:
        await ensure(bare)
    assert FailureCode.BUS_UNAVAILABLE is caught.value.code


async def test_too_few_servers_say_so(bare: Connection) -> None:
    """Three replicas on one server name the setting."""
    with pytest.raises(VitascopeError, match="VITASCOPE_NATS__REPLICAS"):
        await ensure(bare, replicas=3)
