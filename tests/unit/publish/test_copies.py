"""The copies follow the ledger: what is written, what is not, and who wins."""

import asyncio

import pytest

from doors import World
from records import NOW, queued_record, record_in
from vitascope.contracts import transitions
from vitascope.contracts.flow import State
from vitascope.contracts.jobs import JobRecord
from vitascope.contracts.objects import record_key
from vitascope.publish import copies
from vitascope.publish.copies import AfterCopy, Copier
from vitascope.runtime.ports import Stamped


class Puts:
    """A store that notes what is put."""

    def __init__(self, world: World) -> None:
        self.states: list[State] = []
        real = world.store.put

        async def put(key: str, content: bytes, content_type: str) -> object:
            self.states.append(JobRecord.from_bytes(content).state)
            return await real(key, content, content_type)

        world.store.put = put  # type: ignore[method-assign, assignment]


async def test_every_change_that_matters_is_copied_once_and_no_other(world: World) -> None:
    """An acceptance has its copy already; requests, reasons and counts are not worth a write."""
    puts, copier = Puts(world), Copier(world.broker.ledger, world.store)
    stamped = await world.broker.ledger.create(queued_record())
    await copier.handle(stamped)
    for change in (
        lambda record: transitions.start(record, "g0", NOW),
        transitions.request_preempt,
        lambda record: transitions.requeue(record, 1, "preempted"),
        lambda record: transitions.cancel(record, NOW),
    ):
        stamped = await world.broker.ledger.replace(stamped, change(stamped.record))
        await copier.handle(stamped)
        await copier.handle(stamped)
    assert [State.RUNNING, State.QUEUED, State.CANCELLED] == puts.states


async def test_one_of_those_who_ask_at_once_writes(world: World) -> None:
    """All followers see a change at the same time: the copy is written once, and nobody goes on before it is there."""
    puts, copier, gate, through = Puts(world), Copier(world.broker.ledger, world.store), asyncio.Event(), list[int]()
    put = world.store.put

    async def put_slowly(key: str, content: bytes, content_type: str) -> object:
        await gate.wait()
        return await put(key, content, content_type)

    world.store.put = put_slowly  # type: ignore[method-assign, assignment]
    stamped = await world.broker.ledger.create(record_in(State.SUCCEEDED))

    async def follow(number: int) -> None:
        await copier.handle(stamped)
        through.append(number)

    following = [asyncio.create_task(follow(number), name=f"follower {number}") for number in range(3)]
    await asyncio.sleep(0)
    assert [] == through
    gate.set()
    await asyncio.gather(*following)
    assert ([State.SUCCEEDED], 3) == (puts.states, len(through))


async def test_two_copiers_in_any_order_leave_the_newest(world: World) -> None:
    """The one that is behind writes an older copy, looks, and mends it."""
    queued = await world.broker.ledger.create(queued_record())
    running = await world.broker.ledger.replace(queued, transitions.start(queued.record, "g0", NOW))
    ended = await world.broker.ledger.replace(running, transitions.cancel(running.record, NOW))
    await Copier(world.broker.ledger, world.store).handle(ended)
    await Copier(world.broker.ledger, world.store).handle(running)
    assert ended.record == JobRecord.from_bytes(world.store.objects[record_key(ended.record)])


async def test_memory_is_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest are forgotten: their copies would be written once more, which does no harm."""
    monkeypatch.setattr(copies, "MAX_KEPT", 2)
    copier = Copier(world.broker.ledger, world.store)
    for revision in range(1, 5):
        await copier.handle(Stamped(record_in(State.CANCELLED), revision))
    assert 2 == len(copier._kept)


async def test_a_change_is_handed_on_after_its_copy(world: World) -> None:
    """While the store is away nothing is: what an older copy points to must stay."""
    seen: list[bytes] = []

    class Looks:
        async def handle(self, stamped: Stamped) -> None:
            seen.append(world.store.objects[record_key(stamped.record)])

    stamped = await world.broker.ledger.create(record_in(State.SUCCEEDED))
    await AfterCopy(Copier(world.broker.ledger, world.store), Looks()).handle(stamped)
    assert [stamped.record.to_bytes()] == seen
