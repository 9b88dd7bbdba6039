"""The JetStream adapters while the server dies and comes back: nothing is lost, nobody falls silent."""

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from contract.nats_process import NatsProcess
from contract.real import RealPorts, real_ports
from contract.test_bus import QUIET_S, publish, take, work_event
from contract.waiting import until_true
from records import NOW, queued_record, record_in
from vitascope.adapters.jetstream import Connection, ensure
from vitascope.adapters.jetstream import connection as connection_module
from vitascope.contracts import transitions
from vitascope.contracts.events import Control, Progress
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.flow import Stage, State
from vitascope.contracts.ids import make_job_id
from vitascope.contracts.subjects import progress_subject, work_subject
from vitascope.runtime.ports import Stamped

STATE_SAVED_S = 1.0
"""The server writes down what it has delivered a moment later; then it knows of it after a kill."""
RECOVERY_S = 10.0
"""Within this everything works again after the server is back."""


async def next_of(news: AsyncIterator[Stamped | None], job: str) -> Stamped:
    async for stamped in news:
        if stamped is not None and stamped.record.id == job:
            return stamped
    raise AssertionError("the watch ended")


async def test_waiting_consumer_gets_work_after_a_kill(server: NatsProcess, own_ports: RealPorts) -> None:
    """A consumer that was waiting when the server was killed is served by the next one."""
    async with own_ports.bus.consume(Stage.DECODE, "pool") as deliveries:
        await asyncio.sleep(QUIET_S)
        for _ in range(2):
            await server.kill()
            await server.start()
            _, event = await publish(own_ports, "pool")
            delivery = await take(deliveries, RECOVERY_S)
            assert event == delivery.event
            await delivery.ack()


async def test_acknowledged_publish_survives_a_kill(server: NatsProcess, own_ports: RealPorts) -> None:
    """What publish_work and the ledger confirmed is there after SIGKILL."""
    subject, event = await publish(own_ports, "pool")
    stamped = await own_ports.ledger.create(queued_record())
    assert await own_ports.ledger.remember("tenant", "key", b"one") is None
    await server.kill()
    await server.start()
    assert await own_ports.bus.has_work(subject)
    assert stamped == await own_ports.ledger.get(stamped.record.id)
    assert b"one" == await own_ports.ledger.remember("tenant", "key", b"two")
    async with own_ports.bus.consume(Stage.DECODE, "pool") as deliveries:
        assert event == (await take(deliveries, RECOVERY_S)).event


async def test_held_delivery_can_be_ended_after_a_kill(server: NatsProcess, own_ports: RealPorts) -> None:
    """An event that was being worked on while the server died is acknowledged to the next one."""
    subject, _ = await publish(own_ports, "pool")
    async with own_ports.bus.consume(Stage.DECODE, "pool") as deliveries:
        delivery = await take(deliveries, RECOVERY_S)
        await asyncio.sleep(STATE_SAVED_S)
        await server.kill()
        await delivery.beat()
        await server.start()
        await delivery.ack()
    assert not await own_ports.bus.has_work(subject)


async def test_delivery_that_the_server_forgot_comes_again(
    server: NatsProcess,
    own_ports: RealPorts,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Killed right after a delivery the server may not know of it: the consumer is free again, and gets it again."""
    monkeypatch.setattr(connection_module, "REQUEST_S", 2.0)
    subject, event = await publish(own_ports, "pool")
    async with own_ports.bus.consume(Stage.DECODE, "pool") as deliveries:
        delivery = await take(deliveries, RECOVERY_S)
        await server.kill()
        await server.start()
        with contextlib.suppress(VitascopeError):
            await delivery.ack()
        if await own_ports.bus.has_work(subject):
            again = await take(deliveries, RECOVERY_S)
            assert event == again.event
            await again.ack()
    assert not await own_ports.bus.has_work(subject)


async def test_calls_during_an_outage_wait_for_the_server(server: NatsProcess, own_ports: RealPorts) -> None:
    """Calls made while the server is away are answered when it is back, and made once."""
    first = await own_ports.ledger.create(record_in(State.RUNNING))
    await server.kill()
    changed = transitions.note_failure(first.record, 1, Stage.DENOISE, "once")
    replacing = asyncio.create_task(own_ports.ledger.replace(first, changed))
    publishing = asyncio.create_task(publish(own_ports, "pool"))
    await asyncio.sleep(QUIET_S)
    await server.start()
    second = await replacing
    subject, _ = await publishing
    assert second == await own_ports.ledger.get(first.record.id)
    assert await own_ports.bus.has_work(subject)


async def test_writes_under_repeated_kills_are_exact(server: NatsProcess, own_ports: RealPorts) -> None:
    """A chain of compare-and-sets through three kills never loses to itself."""
    current = await own_ports.ledger.create(record_in(State.RUNNING))
    done = asyncio.Event()

    async def write() -> Stamped:
        stamped, number = current, 0
        while not done.is_set():
            changed = transitions.note_failure(stamped.record, 1, Stage.DENOISE, str(number))
            stamped, number = await own_ports.ledger.replace(stamped, changed), number + 1
        return stamped

    writing = asyncio.create_task(write())
    for _ in range(3):
        await asyncio.sleep(QUIET_S)
        await server.kill()
        await server.start()
    await asyncio.sleep(QUIET_S)
    done.set()
    last = await writing
    assert last == await own_ports.ledger.get(current.record.id)
    assert last.record.run.failures > 3


async def test_watches_go_on_after_a_kill(server: NatsProcess, own_ports: RealPorts) -> None:
    """Records, progress and control are heard after the restart; a record comes again with its newest revision."""
    first = await own_ports.ledger.create(queued_record())
    subject = progress_subject("tenant", first.record.id)
    async with (
        own_ports.ledger.watch() as news,
        own_ports.bus.watch_progress(subject) as progress,
        own_ports.bus.watch_control("g0") as controls,
        asyncio.timeout(2 * RECOVERY_S),
    ):
        assert first == await anext(news)
        assert await anext(news) is None
        await server.kill()
        await server.start()
        assert first == await next_of(news, first.record.id)
        second = await own_ports.ledger.replace(first, transitions.start(first.record, "g0", NOW))
        assert second == await next_of(news, first.record.id)
        heard = asyncio.ensure_future(anext(progress))
        while not heard.done():  # what is sent before the watch is back may be lost
            await own_ports.bus.publish_progress(subject, _progress(first.record.id))
            await asyncio.sleep(0.05)
        control = Control(job=first.record.id, attempt=1)
        await own_ports.bus.send_control("g0", control)
        assert control == await anext(controls)


async def test_change_made_during_the_gap_is_heard(server: NatsProcess, own_ports: RealPorts) -> None:
    """A watcher that was cut off hears what others did before it came back."""
    first = await own_ports.ledger.create(queued_record())
    async with own_ports.ledger.watch(first.record.id) as news, asyncio.timeout(2 * RECOVERY_S):
        assert first == await anext(news)
        await server.kill()
        await server.start()
        async with Connection(server.url) as other:
            second = await real_ports(other).ledger.replace(first, transitions.start(first.record, "g0", NOW))
        heard = first
        while heard != second:
            heard = await next_of(news, first.record.id)


async def test_wiped_server_is_made_anew(server: NatsProcess, own_ports: RealPorts, tmp_path: Path) -> None:
    """After all its files are gone, one `ensure` is enough for waiting consumers and watches."""
    async with (
        own_ports.bus.consume(Stage.DECODE, "pool") as deliveries,
        own_ports.ledger.watch() as news,
        asyncio.timeout(3 * RECOVERY_S),
    ):
        assert await anext(news) is None
        await server.kill()
        shutil.rmtree(tmp_path / "store")
        await server.start()
        await ensure(own_ports.connection)
        _, event = await publish(own_ports, "pool")
        assert event == (await take(deliveries, RECOVERY_S)).event
        stamped = await own_ports.ledger.create(queued_record())
        assert stamped == await next_of(news, stamped.record.id)


async def test_client_that_was_turned_away_comes_back(server: NatsProcess, own_ports: RealPorts) -> None:
    """A server that refuses the credentials for a while ends the client for good; the connection survives that."""
    await server.stop()
    await server.start(password="another")
    await until_true(lambda: not own_ports.bus.is_connected(), RECOVERY_S)
    await server.stop()
    await server.start()
    await until_true(own_ports.bus.is_connected, RECOVERY_S)
    async with own_ports.bus.consume(Stage.DECODE, "pool") as deliveries:
        _, event = await publish(own_ports, "pool")
        assert event == (await take(deliveries, RECOVERY_S)).event


async def test_server_that_stays_away_is_an_error(
    server: NatsProcess,
    own_ports: RealPorts,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After the time limit each call says that the bus is away, and for whom to look, without the password."""
    monkeypatch.setattr(connection_module, "REQUEST_S", 0.3)
    await server.kill()
    event = work_event()
    subject = work_subject(Stage.DECODE, "pool", str(event.subject))
    for call in (own_ports.ledger.get(make_job_id(NOW)), own_ports.bus.publish_work(subject, event)):
        with pytest.raises(VitascopeError) as caught:
            await call
        assert FailureCode.BUS_UNAVAILABLE is caught.value.code
        assert f"nats://127.0.0.1:{server.port}" in str(caught.value)
        assert "secret" not in str(caught.value)
    assert not own_ports.bus.is_connected()


def _progress(job: str) -> Progress:
    return Progress(job=job, attempt=1, stage="denoise", step=1, steps=2, time=NOW)
