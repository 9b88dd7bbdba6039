"""What only the JetStream adapters promise: consumers, redelivery, poison, and errors that say what to do."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from nats.aio.msg import Msg

from contract.real import RealPorts, real_ports
from contract.test_bus import QUIET_S, hear_nothing, publish, take, work_event
from contract.test_registry import group_row
from contract.waiting import until
from records import queued_record, record_in
from servers import RunningNats, running_nats
from vitascope.adapters.jetstream import Connection, consumers, ensure
from vitascope.adapters.jetstream import ledger as ledger_module
from vitascope.adapters.jetstream import pull as pull_module
from vitascope.adapters.jetstream.api import call, get_last
from vitascope.contracts import transitions
from vitascope.contracts.events import CloudEvent
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.flow import Stage, State
from vitascope.contracts.subjects import BUCKET_JOBS, STREAM_EVENTS, STREAM_WORK, event_subject, work_consumer
from vitascope.runtime.ports import Conflict

SHORT_ACK_WAIT_S = 2.0


@pytest.fixture
def real(connection: Connection) -> RealPorts:
    return real_ports(connection)


@asynccontextmanager
async def second_process(server: RunningNats) -> AsyncIterator[RealPorts]:
    async with Connection(server.url) as other:
        yield real_ports(other)


async def consumer_of(real: RealPorts, pool: str) -> dict[str, Any]:
    return await call(real.connection, f"CONSUMER.INFO.{STREAM_WORK}.{work_consumer(Stage.DECODE, pool)}")


async def test_work_of_a_vanished_process_goes_to_another(
    real: RealPorts,
    nats_server: RunningNats,
    unique: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A process that is gone without a word loses its event after ack_wait, not before."""
    monkeypatch.setattr(consumers, "ACK_WAIT_S", SHORT_ACK_WAIT_S)
    _, event = await publish(real, unique)
    async with second_process(nats_server) as other, other.bus.consume(Stage.DECODE, unique) as deliveries:
        await take(deliveries)
        await other.connection._shut()
    async with real.bus.consume(Stage.DECODE, unique) as deliveries:
        await hear_nothing(deliveries)
        again = await take(deliveries, 5 * SHORT_ACK_WAIT_S)
        assert event == again.event
        assert 2 == again.deliveries


async def test_beats_keep_the_event(real: RealPorts, unique: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as its holder beats, nobody else gets an event, however long it takes; then it moves."""
    monkeypatch.setattr(consumers, "ACK_WAIT_S", SHORT_ACK_WAIT_S)
    await publish(real, unique)
    async with real.bus.consume(Stage.DECODE, unique) as mine:
        delivery = await take(mine)
        async with real.bus.consume(Stage.DECODE, unique) as others:
            moved = asyncio.create_task(take(others, 10 * SHORT_ACK_WAIT_S))
            for _ in range(9):
                await asyncio.sleep(SHORT_ACK_WAIT_S / 6)
                await delivery.beat()
                assert not moved.done()
            assert delivery.event == (await moved).event


async def test_leaving_leaves_no_pull_behind(real: RealPorts, unique: str) -> None:
    """The server knows of no waiting request and no unacknowledged event after a consumer has left."""
    for _ in range(3):
        async with real.bus.consume(Stage.DECODE, unique, limit=3):
            await asyncio.sleep(QUIET_S)
    await asyncio.sleep(QUIET_S)
    state = await consumer_of(real, unique)
    assert (0, 0) == (state["num_waiting"], state["num_ack_pending"])


async def test_waiting_consumer_does_not_poll(real: RealPorts, unique: str) -> None:
    """One request waits at the server for as long as there is nothing to do."""
    async with real.bus.consume(Stage.DECODE, unique, limit=3):
        await asyncio.sleep(QUIET_S)
        before = real.connection._client.stats["out_msgs"]  # type: ignore[union-attr]  # connected here
        await asyncio.sleep(2 * QUIET_S)
        assert 1 == (await consumer_of(real, unique))["num_waiting"]
        assert 1 == real.connection._client.stats["out_msgs"] - before  # type: ignore[union-attr]  # the question itself


async def test_expired_request_is_renewed(real: RealPorts, unique: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a request has expired another one stands in its place."""
    monkeypatch.setattr(pull_module, "EXPIRES_S", 0.4)
    monkeypatch.setattr(pull_module, "HEARTBEAT_S", 0.1)
    async with real.bus.consume(Stage.DECODE, unique, limit=3) as deliveries:
        await asyncio.sleep(1.0)
        _, event = await publish(real, unique)
        assert event == (await take(deliveries)).event


async def test_forgotten_request_is_noticed(real: RealPorts, unique: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that never reached the server, or that it has forgotten, is found out by the missing heartbeats."""
    monkeypatch.setattr(pull_module, "SILENCE_S", 0.5)
    send = real.connection.send
    lost: list[str] = []

    async def lose_first_request(subject: str, payload: bytes, *, reply: str = "") -> None:
        if "MSG.NEXT" in subject and not lost:
            lost.append(subject)
        else:
            await send(subject, payload, reply=reply)

    monkeypatch.setattr(real.connection, "send", lose_first_request)
    _, event = await publish(real, unique)
    async with real.bus.consume(Stage.DECODE, unique) as deliveries:
        assert event == (await take(deliveries, 5)).event
    assert 1 == len(lost)


async def test_write_whose_answer_was_lost_is_not_a_conflict(
    real: RealPorts,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The connection broke between a write and its answer: sent again it is recognized; a real conflict is not."""
    ask = real.connection._ask

    async def lose_the_answer(subject: str, payload: bytes, headers: dict[str, str] | None) -> Msg | None:
        answer = await ask(subject, payload, headers)
        monkeypatch.undo()
        real.connection.epoch += 1
        assert answer is not None
        return None

    first = await real.ledger.create(record_in(State.RUNNING))
    changed = transitions.note_failure(first.record, 1, Stage.DENOISE, "x")
    monkeypatch.setattr(real.connection, "_ask", lose_the_answer)
    second = await real.ledger.replace(first, changed)
    assert second == await real.ledger.get(first.record.id)
    monkeypatch.setattr(real.connection, "_ask", lose_the_answer)
    with pytest.raises(Conflict):
        await real.ledger.replace(first, changed)


async def test_deleted_consumer_is_made_again(real: RealPorts, unique: str) -> None:
    """Somebody deleted the durable consumer: the event comes all the same."""
    async with real.bus.consume(Stage.DECODE, unique) as deliveries:
        await asyncio.sleep(QUIET_S)
        await call(real.connection, f"CONSUMER.DELETE.{STREAM_WORK}.{work_consumer(Stage.DECODE, unique)}")
        _, event = await publish(real, unique)
        assert event == (await take(deliveries, 3)).event


async def test_older_consumer_is_corrected_and_keeps_the_rest(real: RealPorts, unique: str) -> None:
    """What an older release set otherwise is changed, and what others set is left."""
    config = consumers.plan_consumer(Stage.DECODE, unique, None)
    old = {**config, "ack_wait": 5_000_000_000, "description": "made by hand"}
    await consumers._write(real.connection, STREAM_WORK, old, "create")
    await consumers.ensure_consumer(real.connection, STREAM_WORK, config)
    now = (await consumer_of(real, unique))["config"]
    assert (config["ack_wait"], "made by hand") == (now["ack_wait"], now["description"])


async def test_message_that_is_no_event_is_buried(real: RealPorts, unique: str) -> None:
    """It is kept for people to look at, never delivered, and the next event comes."""
    subject = f"vitascope.work.decode.{unique}.{unique}"
    await real.connection.request(subject, b"\xff not JSON", {"ce-id": "x"})
    async with real.bus.consume(Stage.DECODE, unique) as deliveries:
        _, event = await publish(real, unique)
        assert event == (await take(deliveries)).event
    letter = await get_last(real.connection, "VITASCOPE_DEAD", f"vitascope.dead.decode.{unique}")
    assert letter is not None
    assert b"\xff not JSON" == base64.b64decode(json.loads(letter.payload)["body_base64"])
    assert not await real.bus.has_work(subject)


async def test_events_are_cloudevents_in_binary_mode(real: RealPorts, unique: str) -> None:
    """Attributes are ce- headers, the body is the data alone, and a copy is not kept."""
    event = CloudEvent(id="1", source="/s", type="dev.vitascope.job.queued.v1", subject="Euro € 😀", data={"a": 1})
    subject = event_subject(unique, unique, event.type)
    await real.bus.publish_event(subject, event)
    first = await get_last(real.connection, STREAM_EVENTS, subject)
    await real.bus.publish_event(subject, event)
    assert first is not None
    assert first == await get_last(real.connection, STREAM_EVENTS, subject)
    assert {"a": 1} == json.loads(first.payload)
    assert "Euro%20%E2%82%AC%20%F0%9F%98%80" == first.headers["ce-subject"]
    assert "1.0" == first.headers["ce-specversion"]
    assert "Content-Type" not in first.headers


async def test_left_watch_leaves_no_consumer(real: RealPorts) -> None:
    """Watches clean up behind themselves at the server."""
    async with real.ledger.watch(queued_record().id) as news:
        assert await anext(news) is None
        during = await count_consumers(real)

    async def is_one_less() -> bool:
        return during - 1 == await count_consumers(real)

    await until(is_one_less)  # nobody waits for the answer when a watch is left


async def count_consumers(real: RealPorts) -> int:
    return int((await call(real.connection, f"STREAM.INFO.KV_{BUCKET_JOBS}"))["state"]["consumer_count"])


async def test_row_that_is_not_renewed_vanishes(real: RealPorts, unique: str) -> None:
    """The bucket of groups forgets a row by itself: its age is bounded by the server."""
    await real.registry.put_group(group_row(unique))
    config = (await call(real.connection, "STREAM.INFO.KV_VITASCOPE_GROUPS"))["config"]
    assert timedelta(seconds=15) == timedelta(microseconds=config["max_age"] / 1000)


async def test_lease_is_found_again_by_its_holder_after_a_restart(
    real: RealPorts,
    nats_server: RunningNats,
    unique: str,
) -> None:
    """A process that comes back under its own name renews the lease it had."""
    assert await real.registry.acquire_lease(unique, "a", 30)
    async with second_process(nats_server) as other:
        assert await other.registry.acquire_lease(unique, "a", 30)
        assert not await other.registry.acquire_lease(unique, "b", 30)
    assert await real.registry.acquire_lease(unique, "a", 30)


async def test_no_server_says_which_and_what_to_do() -> None:
    """At start, within the time limit, without the password."""
    with pytest.raises(VitascopeError) as caught:
        async with Connection("nats://user:hidden@127.0.0.1:1", connect_timeout_s=0.3):
            pass
    assert FailureCode.BUS_UNAVAILABLE is caught.value.code
    assert "nats://127.0.0.1:1" in str(caught.value)
    assert "VITASCOPE_NATS__URL" in str(caught.value)
    assert "hidden" not in str(caught.value)


async def test_wrong_password_says_so(nats_server: RunningNats) -> None:
    """A server that turns us away is not the same as no server."""
    with pytest.raises(VitascopeError, match="Authorization Violation") as caught:
        async with Connection(nats_server.plain_url, user="vitascope", password="wrong", connect_timeout_s=0.5):
            pass
    assert "wrong" not in str(caught.value)


async def test_missing_streams_name_the_scheduler(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Before anybody made the streams, reads and writes say who does; a consumer waits for them."""
    async with (
        running_nats(tmp_path_factory.mktemp("bare")) as server,
        Connection(server.url) as connection,
    ):
        bare = real_ports(connection)
        async with bare.bus.consume(Stage.DECODE, "pool") as deliveries:
            for attempt in (bare.ledger.get("x"), bare.ledger.create(queued_record()), bare.registry.get_groups()):
                with pytest.raises(VitascopeError, match="scheduler") as caught:
                    await attempt
                assert FailureCode.BUS_UNAVAILABLE is caught.value.code
            await ensure(connection)
            _, event = await publish(bare, "pool", work_event())
            assert event == (await take(deliveries, 5)).event


async def test_forgotten_record_leaves_nothing_behind(real: RealPorts, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither history nor a mark stays in the stream; while the mark is there, its id is not free."""
    monkeypatch.setattr(ledger_module, "FORGOTTEN_S", 1)
    stamped = await real.ledger.create(record_in(State.RUNNING))
    for number in range(3):
        changed = transitions.note_failure(stamped.record, 1, Stage.DENOISE, str(number))
        stamped = await real.ledger.replace(stamped, changed)
    subject = f"$KV.{BUCKET_JOBS}.{stamped.record.id}"
    assert 4 == await count_messages(real, subject)
    await real.ledger.forget(stamped)
    assert 1 == await count_messages(real, subject)
    with pytest.raises(Conflict):
        await real.ledger.create(stamped.record)

    async def is_gone() -> bool:
        return await count_messages(real, subject) == 0

    await until(is_gone)
    assert await real.ledger.get(stamped.record.id) is None


async def count_messages(real: RealPorts, subject: str) -> int:
    answer = await call(real.connection, f"STREAM.INFO.KV_{BUCKET_JOBS}", {"subjects_filter": subject})
    return int((answer["state"].get("subjects") or {}).get(subject, 0))


async def test_idle_consumers_are_found_on_every_page(real: RealPorts, unique: str) -> None:
    """The server shows 256 consumers at a time."""
    groups = [f"g{number}" for number in range(300)]
    for group in groups:
        wanted = consumers.plan_consumer(Stage.DENOISE, unique, group)
        await consumers.ensure_consumer(real.connection, STREAM_WORK, wanted)
    dropped = [name for name in await real.bus.drop_idle_consumers({(unique, "g7")}) if unique in name]
    assert sorted(work_consumer(Stage.DENOISE, unique, group) for group in groups if group != "g7") == dropped
