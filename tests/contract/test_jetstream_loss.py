"""The JetStream adapters when the server comes back without its files while everybody is connected."""

import asyncio
import shutil
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from contract.nats_process import NatsProcess
from contract.real import RealPorts, real_ports
from contract.test_bus import publish, take, work_event
from contract.test_registry import group_row
from contract.waiting import until_true
from records import NOW, queued_record
from vitascope.adapters.jetstream import Connection, ensure, topology
from vitascope.adapters.jetstream import connection as connection_module
from vitascope.adapters.jetstream import registry as registry_module
from vitascope.adapters.jetstream.watch import Watch
from vitascope.contracts import transitions
from vitascope.contracts.events import CloudEvent, Progress
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.flow import Stage
from vitascope.contracts.subjects import dead_subject, progress_subject, work_subject
from vitascope.runtime.ports import Conflict, Stamped

RECOVERY_S = 15.0
"""Within this everything works again once the streams are there; pauses between tries are 2 s at most."""
STAMPED = Stamped(queued_record(), 1)
WORK = work_subject(Stage.DECODE, "pool", STAMPED.record.id)
EVENT = CloudEvent(id="1", source="s", type="t")


async def lose(server: NatsProcess, tmp_path: Path) -> None:
    await server.stop()
    shutil.rmtree(tmp_path / "store")
    await server.start()


async def enter_watch(ports: RealPorts) -> None:
    async with ports.ledger.watch():
        pass


CALLS: dict[str, Callable[[RealPorts], Coroutine[Any, Any, object]]] = {
    "create": lambda ports: ports.ledger.create(STAMPED.record),
    "get": lambda ports: ports.ledger.get(STAMPED.record.id),
    "replace": lambda ports: ports.ledger.replace(STAMPED, transitions.cancel(STAMPED.record, NOW)),
    "forget": lambda ports: ports.ledger.forget(STAMPED),
    "get_birth": lambda ports: ports.ledger.get_birth(),
    "remember": lambda ports: ports.ledger.remember("t", "k", b"v"),
    "watch": enter_watch,
    "publish_work": lambda ports: ports.bus.publish_work(WORK, EVENT),
    "has_work": lambda ports: ports.bus.has_work(WORK),
    "drop_work": lambda ports: ports.bus.drop_work(WORK),
    "list_work": lambda ports: ports.bus.list_work(),
    "drop_idle_consumers": lambda ports: ports.bus.drop_idle_consumers(()),
    "publish_event": lambda ports: ports.bus.publish_event("vitascope.events.t.j.x", EVENT),
    "publish_dead": lambda ports: ports.bus.publish_dead(dead_subject(Stage.DECODE, "j"), EVENT),
    "put_group": lambda ports: ports.registry.put_group(group_row("pool")),
    "remove_group": lambda ports: ports.registry.remove_group(group_row("pool")),
    "get_groups": lambda ports: ports.registry.get_groups(),
    "acquire_lease": lambda ports: ports.registry.acquire_lease("l", "h", 5),
    "release_lease": lambda ports: ports.registry.release_lease("l", "h"),
}


async def test_calls_on_a_server_without_streams_say_so(server: NatsProcess, tmp_path: Path) -> None:
    """Until the streams are made anew each call is answered with `bus_unavailable`, in less than its time limit."""
    async with Connection(server.url) as connection:
        await ensure(connection)
        await lose(server, tmp_path)
        ports = real_ports(connection)
        await until_true(ports.bus.is_connected, RECOVERY_S)
        async with asyncio.timeout(connection_module.REQUEST_S):
            answers = await asyncio.gather(*(make(ports) for make in CALLS.values()), return_exceptions=True)
    codes = {
        name: answer.code if isinstance(answer, VitascopeError) else answer
        for name, answer in zip(CALLS, answers, strict=True)
    }
    assert dict.fromkeys(CALLS, FailureCode.BUS_UNAVAILABLE) == codes


async def test_rows_that_do_not_come_are_an_error(
    server: NatsProcess,
    own_ports: RealPorts,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server that goes away between a question and its answer does not keep the asker for ever."""
    create = Watch._create

    async def create_and_die(watch: Watch) -> None:
        await create(watch)
        await server.kill()

    await own_ports.registry.put_group(group_row("pool"))
    monkeypatch.setattr(Watch, "_create", create_and_die)
    monkeypatch.setattr(registry_module, "REPLAY_S", 0.5)
    with pytest.raises(VitascopeError) as caught:
        await asyncio.wait_for(own_ports.registry.get_groups(), RECOVERY_S)
    assert FailureCode.BUS_UNAVAILABLE is caught.value.code


async def test_ledger_begins_anew_above_all_revisions(
    server: NatsProcess, own_ports: RealPorts, tmp_path: Path
) -> None:
    """Records are gone, old revisions fit nothing, later ones are higher, and the birth is later."""
    ledger, birth = own_ports.ledger, await own_ports.ledger.get_birth()
    lost = [await ledger.create(queued_record()) for _ in range(5)]
    await lose(server, tmp_path)
    created = await ensure(own_ports.connection)
    assert {config["name"] for config in topology.plan(1)} == set(created)
    assert await ledger.get_birth() > birth
    assert await ledger.get(lost[0].record.id) is None
    for stamped in lost:
        with pytest.raises(Conflict):
            await ledger.replace(stamped, transitions.cancel(stamped.record, NOW))
        with pytest.raises(Conflict):
            await ledger.forget(stamped)
    again = [await ledger.create(stamped.record) for stamped in lost]
    assert max(stamped.revision for stamped in lost) < min(stamped.revision for stamped in again)
    with pytest.raises(Conflict):
        await ledger.replace(lost[0], transitions.cancel(lost[0].record, NOW))
    assert again[0] == await ledger.get(lost[0].record.id)


async def test_consumers_and_watches_go_on(server: NatsProcess, own_ports: RealPorts, tmp_path: Path) -> None:
    """Who was consuming and watching is served by the new streams without doing anything, from their very beginning."""
    job = queued_record().id
    subject = progress_subject("tenant", job)
    progress = Progress(job=job, attempt=1, stage="denoise", step=1, steps=2, time=NOW)
    async with (
        own_ports.bus.consume(Stage.DECODE, "pool") as deliveries,
        own_ports.ledger.watch() as records,
        own_ports.registry.watch_groups() as groups,
        own_ports.bus.watch_progress(subject) as heard,
        asyncio.timeout(2 * RECOVERY_S),
    ):
        assert await anext(records) is None
        assert await anext(groups) is None
        await lose(server, tmp_path)
        await ensure(own_ports.connection)
        _, event = await publish(own_ports, "pool")
        stamped = await own_ports.ledger.create(queued_record())
        await own_ports.registry.put_group(group_row("pool"))
        await own_ports.bus.publish_progress(subject, progress)
        assert event == (await take(deliveries, RECOVERY_S)).event
        assert stamped == await anext(records)
        assert group_row("pool") == await anext(groups)
        assert progress.model_dump_json().encode() == await anext(heard)


async def test_late_end_of_a_lost_event_ends_no_other(
    server: NatsProcess, own_ports: RealPorts, tmp_path: Path
) -> None:
    """Whoever still holds an event of the lost stream cannot end the first one of the new stream with it."""
    await publish(own_ports, "pool")
    async with own_ports.bus.consume(Stage.DECODE, "pool") as deliveries:
        held = await take(deliveries)
        await lose(server, tmp_path)
        await ensure(own_ports.connection)
        subject, event = await publish(own_ports, "pool", work_event())
        async with Connection(server.url) as other, real_ports(other).bus.consume(Stage.DECODE, "pool") as others:
            again = await take(others, RECOVERY_S)
            assert event == again.event
            await asyncio.gather(held.ack(), return_exceptions=True)
            assert await own_ports.bus.has_work(subject)
            await again.ack()
    assert not await own_ports.bus.has_work(subject)


async def test_lost_lease_is_whose_who_comes_first(server: NatsProcess, own_ports: RealPorts, tmp_path: Path) -> None:
    """The holder of a lost lease has no right to it that would fit somebody else's new one."""
    registry = own_ports.registry
    assert await registry.acquire_lease("scheduler", "a", 60)
    await lose(server, tmp_path)
    await ensure(own_ports.connection)
    async with Connection(server.url) as other:
        assert await real_ports(other).registry.acquire_lease("scheduler", "b", 60)
    assert not await registry.acquire_lease("scheduler", "a", 60)
    await registry.release_lease("scheduler", "a")
    assert await registry.acquire_lease("other", "a", 60)
