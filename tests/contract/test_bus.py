"""What every bus promises."""

import asyncio
import json
from collections.abc import Collection
from contextlib import suppress

import pytest

from contract.real import Ports
from contract.waiting import until
from records import NOW
from vitascope.contracts.events import CloudEvent, Control, FramesReady, Progress, WorkItem
from vitascope.contracts.failures import VitascopeError
from vitascope.contracts.flow import Stage
from vitascope.contracts.ids import make_job_id
from vitascope.contracts.subjects import event_subject, frames_subject, progress_subject, work_consumer, work_subject
from vitascope.runtime.ports import Delivery

SOON_S = 10.0
"""Within this an event must have moved: it takes milliseconds, and an event that is held hostage takes 30 s."""
QUIET_S = 0.3
"""How long nothing may come before it is believed that nothing comes."""


def work_event(attempt: int = 1, stage: Stage = Stage.DECODE) -> CloudEvent:
    return WorkItem(job=make_job_id(NOW), tenant="default", attempt=attempt, stage=stage).to_event(NOW)


async def publish(ports: Ports, pool: str, event: CloudEvent | None = None) -> tuple[str, CloudEvent]:
    event = event or work_event()
    subject = work_subject(Stage.DECODE, pool, str(event.subject))
    await ports.bus.publish_work(subject, event)
    return subject, event


async def take(deliveries: object, within_s: float = SOON_S) -> Delivery:
    async with asyncio.timeout(within_s):
        return await anext(deliveries)  # type: ignore[call-overload,no-any-return]  # an async iterator


async def hear_nothing(deliveries: object) -> None:
    with pytest.raises(TimeoutError):
        await take(deliveries, QUIET_S)


async def test_published_event_is_delivered_equal(ports: Ports, unique: str) -> None:
    """All attributes and the data arrive, whatever characters they hold."""
    _, event = await publish(ports, unique, work_event().model_copy(update={"source": 'Euro € "😀"%20'}))
    async with ports.bus.consume(Stage.DECODE, unique) as deliveries:
        delivery = await take(deliveries)
    assert event == delivery.event
    assert 1 == delivery.deliveries


async def test_dropped_event_is_gone_for_everybody(ports: Ports, unique: str) -> None:
    """Waiting or taken: nobody gets it again, its late acknowledgement does no harm, and other work is not touched."""
    dropped, _ = await publish(ports, unique)
    async with ports.bus.consume(Stage.DECODE, unique) as deliveries:
        delivery = await take(deliveries)
        kept, event = await publish(ports, unique)
        await ports.bus.drop_work(dropped)
        assert [False, True] == [await ports.bus.has_work(subject) for subject in (dropped, kept)]
        with suppress(VitascopeError):  # a server that does not know the message any more may leave it unanswered
            await delivery.ack()
        assert event == (await take(deliveries)).event


async def test_event_published_before_any_consumer_waits(ports: Ports, unique: str) -> None:
    """Work is not lost because nobody consumes yet, and can be asked for by its subject."""
    subject, _ = await publish(ports, unique)
    assert await ports.bus.has_work(subject)
    async with ports.bus.consume(Stage.DECODE, unique) as deliveries:
        delivery = await take(deliveries)
        assert await ports.bus.has_work(subject)
        await delivery.ack()
    assert not await ports.bus.has_work(subject)


async def test_copy_is_dropped(ports: Ports, unique: str) -> None:
    """An event with an id that was seen is not delivered again, not even after its acknowledgement."""
    _, event = await publish(ports, unique)
    await publish(ports, unique, event)
    async with ports.bus.consume(Stage.DECODE, unique, limit=2) as deliveries:
        await (await take(deliveries)).ack()
        await publish(ports, unique, event)
        await hear_nothing(deliveries)


async def test_next_attempt_is_no_copy(ports: Ports, unique: str) -> None:
    """A retry has another id and is delivered."""
    first = WorkItem(job=make_job_id(NOW), tenant="default", attempt=1, stage=Stage.DECODE)
    second = first.model_copy(update={"attempt": 2})
    for item in (first, second):
        await publish(ports, unique, item.to_event(NOW))
    async with ports.bus.consume(Stage.DECODE, unique, limit=2) as deliveries:
        got = [WorkItem.from_event((await take(deliveries)).event) for _ in range(2)]
    assert [first, second] == got


async def test_each_event_goes_to_one_consumer(ports: Ports, unique: str) -> None:
    """Two consumers share the work."""
    events = [(await publish(ports, unique))[1] for _ in range(10)]
    got: list[str] = []

    async def consume() -> None:
        async with ports.bus.consume(Stage.DECODE, unique, limit=2) as deliveries:
            while len(got) < len(events):
                try:
                    delivery = await take(deliveries, QUIET_S)
                except TimeoutError:
                    return
                got.append(delivery.event.id)
                await delivery.ack()

    await asyncio.gather(consume(), consume())
    assert sorted(event.id for event in events) == sorted(got)


async def test_no_more_than_the_limit_is_unfinished(ports: Ports, unique: str) -> None:
    """With two unfinished of two, the third comes only when one has ended."""
    for _ in range(3):
        await publish(ports, unique)
    async with ports.bus.consume(Stage.DECODE, unique, limit=2) as deliveries:
        first, _ = await take(deliveries), await take(deliveries)
        await hear_nothing(deliveries)
        await first.ack()
        await take(deliveries)


async def test_second_consumer_gets_what_the_first_has_no_room_for(ports: Ports, unique: str) -> None:
    """A consumer that is at its limit holds nothing back from the others."""
    async with ports.bus.consume(Stage.DECODE, unique) as busy:
        await publish(ports, unique)
        await take(busy)
        await publish(ports, unique)
        async with ports.bus.consume(Stage.DECODE, unique) as other:
            await take(other)


async def test_pools_and_groups_are_apart(ports: Ports, unique: str) -> None:
    """A group's work reaches only that group."""
    event = work_event(stage=Stage.DENOISE)
    await ports.bus.publish_work(work_subject(Stage.DENOISE, unique, str(event.subject), "g1"), event)
    async with (
        ports.bus.consume(Stage.DENOISE, unique, "g0") as other,
        ports.bus.consume(Stage.DENOISE, unique, "g1") as mine,
    ):
        assert event == (await take(mine)).event
        await hear_nothing(other)


async def test_retry_comes_back_after_the_delay(ports: Ports, unique: str) -> None:
    """Not before the delay, soon after it, and counted."""
    await publish(ports, unique)
    async with ports.bus.consume(Stage.DECODE, unique) as deliveries:
        await (await take(deliveries)).retry(0.6)
        await hear_nothing(deliveries)
        again = await take(deliveries)
        assert 2 == again.deliveries
        await again.ack()


async def test_retry_at_once_goes_to_anybody(ports: Ports, unique: str) -> None:
    """Without a delay the event is there for the next consumer."""
    _, event = await publish(ports, unique)
    async with ports.bus.consume(Stage.DECODE, unique) as deliveries:
        await (await take(deliveries)).retry(0)
    async with ports.bus.consume(Stage.DECODE, unique) as deliveries:
        assert event == (await take(deliveries)).event


async def test_dropped_event_is_gone(ports: Ports, unique: str) -> None:
    """A dropped event is not delivered again, and not waiting either."""
    subject, _ = await publish(ports, unique)
    async with ports.bus.consume(Stage.DECODE, unique) as deliveries:
        await (await take(deliveries)).drop("stale:\r\nattempt 1")

    async def is_gone() -> bool:
        return not await ports.bus.has_work(subject)

    await until(is_gone, SOON_S)


async def test_only_the_first_end_counts(ports: Ports, unique: str) -> None:
    """After the acknowledgement a retry or drop does nothing."""
    await publish(ports, unique)
    async with ports.bus.consume(Stage.DECODE, unique) as deliveries:
        delivery = await take(deliveries)
        await delivery.ack()
        await delivery.retry(0)
        await delivery.drop("no")
        await delivery.ack()
        await delivery.beat()
        await hear_nothing(deliveries)


async def test_leaving_hands_back_what_was_not_yielded(ports: Ports, unique: str) -> None:
    """Of three taken in advance, the two that nobody saw are there for the next consumer at once."""
    events = [(await publish(ports, unique))[1] for _ in range(3)]
    async with ports.bus.consume(Stage.DECODE, unique, limit=3) as deliveries:
        first = await take(deliveries)
        await asyncio.sleep(QUIET_S)  # until all that is asked for is on its way
    async with ports.bus.consume(Stage.DECODE, unique, limit=3) as deliveries:
        others = [(await take(deliveries)).event.id for _ in range(2)]
        await hear_nothing(deliveries)
    assert sorted(event.id for event in events) == sorted([first.event.id, *others])


@pytest.mark.parametrize("limit", [1, 3], ids=["one", "three"])
async def test_cancelled_consumer_takes_no_job_hostage(ports: Ports, unique: str, limit: int) -> None:
    """A consumer that was cancelled while it waited gets nothing any more: a new event goes to the next one."""

    async def wait_for_work() -> None:
        async with ports.bus.consume(Stage.DECODE, unique, limit=limit) as deliveries:
            await anext(deliveries)

    waiting = asyncio.create_task(wait_for_work())
    await asyncio.sleep(QUIET_S)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    async with ports.bus.consume(Stage.DECODE, unique) as deliveries:
        _, event = await publish(ports, unique)
        assert event == (await take(deliveries)).event


async def test_oversized_event_is_refused(ports: Ports, unique: str) -> None:
    """More than 64 KiB never reaches the server, whose answer would be to end the connection."""
    with pytest.raises(ValueError, match="65536"):
        await publish(ports, unique, work_event().model_copy(update={"data": "x" * 70_000}))
    await publish(ports, unique)


async def test_public_event_is_taken(ports: Ports, unique: str) -> None:
    """A public event and its copy are both accepted; that one is kept is checked per adapter."""
    event = work_event()
    subject = event_subject(unique, str(event.subject), "dev.vitascope.job.queued.v1")
    await ports.bus.publish_event(subject, event)
    await ports.bus.publish_event(subject, event)


def progress(step: int) -> Progress:
    return Progress(job=make_job_id(NOW), attempt=1, stage="denoise", step=step, steps=20, time=NOW)


async def test_progress_newest_first_then_changes(ports: Ports, unique: str) -> None:
    """A watcher gets the newest state, not the ones before it, and then what follows."""
    subject = progress_subject(unique, make_job_id(NOW))
    for step in (1, 2, 3):
        await ports.bus.publish_progress(subject, progress(step))
    await ports.bus.has_work(subject)  # a round trip: the server has seen all of them
    async with ports.bus.watch_progress(subject) as news:
        assert 3 == json.loads(await anext(news))["step"]
        await ports.bus.publish_progress(subject, progress(4))
        assert 4 == json.loads(await anext(news))["step"]


async def test_frames_have_a_subject_of_their_own(ports: Ports, unique: str) -> None:
    """Frames of another attempt, and progress of the job, are not heard."""
    job = make_job_id(NOW)
    async with ports.bus.watch_progress(frames_subject(unique, job, 2)) as news:
        await ports.bus.publish_progress(progress_subject(unique, job), progress(1))
        await ports.bus.publish_progress(
            frames_subject(unique, job, 1), FramesReady(job=job, attempt=1, chunks=1, frames=1)
        )
        ready = FramesReady(job=job, attempt=2, chunks=3, frames=9, done=True)
        await ports.bus.publish_progress(frames_subject(unique, job, 2), ready)
        assert ready == FramesReady.model_validate_json(await anext(news))


async def test_control_reaches_the_group_that_listens(ports: Ports, unique: str) -> None:
    """Each listener of a group hears it; other groups and later listeners do not."""
    control = Control(job=make_job_id(NOW), attempt=2)
    await ports.bus.send_control(unique, control.model_copy(update={"attempt": 1}))
    async with ports.bus.watch_control(unique) as one, ports.bus.watch_control(unique) as two:
        await ports.bus.send_control(f"{unique}x", control.model_copy(update={"attempt": 9}))
        await ports.bus.send_control(unique, control)
        async with asyncio.timeout(SOON_S):
            assert [control, control] == [await anext(one), await anext(two)]


async def test_connected_bus_says_so(ports: Ports) -> None:
    """Readiness asks for this."""
    assert ports.bus.is_connected()


async def test_work_is_listed_until_it_is_done(ports: Ports, unique: str) -> None:
    """Waiting or taken, an event's subject is in the list; once, however many events it has."""
    done, _ = await publish(ports, unique)
    waiting, event = await publish(ports, unique)
    await publish(ports, unique, event.model_copy(update={"id": "another"}))
    assert sorted([done, waiting]) == await work_of(ports, unique)
    async with ports.bus.consume(Stage.DECODE, unique) as deliveries:
        delivery = await take(deliveries)
        assert sorted([done, waiting]) == await work_of(ports, unique)
        await delivery.ack()
    assert [waiting] == await work_of(ports, unique)


async def test_only_idle_consumers_of_other_groups_go(ports: Ports, unique: str) -> None:
    """Kept: a group that is asked for, one with work that waits, one with a process, and every pool of other stages."""
    for group in ("kept", "idle", "waits"):
        async with ports.bus.consume(Stage.DENOISE, unique, group) as deliveries:
            await hear_nothing(deliveries)
    async with ports.bus.consume(Stage.DECODE, unique) as deliveries:
        await hear_nothing(deliveries)
    event = work_event(stage=Stage.DENOISE)
    await ports.bus.publish_work(work_subject(Stage.DENOISE, unique, str(event.subject), "waits"), event)
    async with ports.bus.consume(Stage.DENOISE, unique, "lives") as deliveries:
        await hear_nothing(deliveries)
        assert [work_consumer(Stage.DENOISE, unique, "idle")] == await drop_consumers(ports, unique, {(unique, "kept")})
        assert [] == await drop_consumers(ports, unique, {(unique, "kept")})
    async with ports.bus.consume(Stage.DENOISE, unique, "waits") as deliveries:
        delivery = await take(deliveries)
        assert event == delivery.event
        assert [] == await drop_consumers(ports, unique, {(unique, "kept"), (unique, "lives")})
        await delivery.ack()


async def test_group_comes_back_after_its_consumer_went(ports: Ports, unique: str) -> None:
    """What is published meanwhile waits for it."""
    async with ports.bus.consume(Stage.DENOISE, unique, "g0") as deliveries:
        await hear_nothing(deliveries)
    assert [work_consumer(Stage.DENOISE, unique, "g0")] == await drop_consumers(ports, unique, ())
    event = work_event(stage=Stage.DENOISE)
    await ports.bus.publish_work(work_subject(Stage.DENOISE, unique, str(event.subject), "g0"), event)
    async with ports.bus.consume(Stage.DENOISE, unique, "g0") as deliveries:
        assert event == (await take(deliveries)).event


async def work_of(ports: Ports, pool: str) -> list[str]:
    return [subject for subject in await ports.bus.list_work() if f".{pool}." in subject]


async def drop_consumers(ports: Ports, pool: str, kept: Collection[tuple[str, str]]) -> list[str]:
    """Those of this test that went; the server may hold idle ones of other tests."""
    return [name for name in await ports.bus.drop_idle_consumers(kept) if pool in name]
