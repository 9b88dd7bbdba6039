"""Following the ledger: at least once, across restarts and outages, and old ends not for ever."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from doors import World, until
from records import queued_record
from vitascope.contracts import transitions
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.flow import State
from vitascope.contracts.objects import publish_mark_key
from vitascope.publish.follow import SKEW, Follower
from vitascope.runtime.completeness import RebuildMark, save_mark
from vitascope.runtime.ports import Stamped

KEY = publish_mark_key("test")


class Notes:
    """A handler that notes what it handled; it fails as often as it is told."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, State]] = []
        self.failures = 0

    async def handle(self, stamped: Stamped) -> None:
        if self.failures:
            self.failures -= 1
            raise VitascopeError(FailureCode.STORE_UNAVAILABLE)
        self.seen.append((stamped.record.id, stamped.record.state))


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vitascope.publish.follow.RETRY_FIRST_S", 0.0)


@asynccontextmanager
async def _following(world: World, notes: Notes) -> AsyncIterator[Follower]:
    follower = Follower("test", notes, ledger=world.broker.ledger, store=world.store, clock=world.time)
    task = asyncio.create_task(follower.run())
    try:
        yield follower
    finally:
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()


async def _mark_complete(world: World) -> None:
    """The ledger is complete from two hours ago on."""
    at = world.time.now() - 2 * SKEW
    await save_mark(world.store, RebuildMark(birth=await world.broker.ledger.get_birth(), at=at))


async def _add(world: World, *, is_ended: bool = False) -> str:
    stamped = await world.broker.ledger.create(queued_record(world.time.now()))
    if is_ended:
        await world.broker.ledger.replace(stamped, transitions.cancel(stamped.record, world.time.now()))
    return stamped.record.id


async def test_everything_there_and_everything_that_comes(world: World) -> None:
    """Without a mark nothing is left out."""
    notes, old = Notes(), await _add(world, is_ended=True)
    async with _following(world, notes):
        await until(lambda: KEY in world.store.objects)
        new = await _add(world)
        await until(lambda: len(notes.seen) == 2)
    assert [(old, State.CANCELLED), (new, State.QUEUED)] == notes.seen


async def test_a_restart_repeats_only_what_is_young_or_alive(world: World) -> None:
    """Jobs that ended long before the last replay stay handled; the margin for clocks is kept."""
    await _mark_complete(world)
    await _add(world, is_ended=True)
    world.time.advance(SKEW.total_seconds() + 60)
    young, alive = await _add(world, is_ended=True), await _add(world)
    async with _following(world, first := Notes()):
        await until(lambda: KEY in world.store.objects)
    async with _following(world, second := Notes()):
        await until(lambda: len(second.seen) == 2)
    assert (3, {young, alive}) == (len(first.seen), {job for job, _ in second.seen})


async def test_a_change_made_while_it_was_away_is_not_lost(world: World) -> None:
    """However long it was away, since the mark stands where its last replay began."""
    await _mark_complete(world)
    job = await _add(world)
    async with _following(world, Notes()):
        await until(lambda: KEY in world.store.objects)
    world.time.advance(30)
    await world.change(job, transitions.cancel((await world.load(job)).record, world.time.now()))
    world.time.advance(timedelta(days=5).total_seconds())
    async with _following(world, notes := Notes()):
        await until(lambda: bool(notes.seen))
    assert [(job, State.CANCELLED)] == notes.seen


async def test_a_replay_that_was_not_finished_moves_no_mark(world: World) -> None:
    """Killed in the middle of it: all comes again."""
    job = await _add(world, is_ended=True)
    notes = Notes()
    notes.failures = 10**6
    async with _following(world, notes):
        await until(lambda: notes.failures < 10**6 - 3)
    assert KEY not in world.store.objects
    async with _following(world, second := Notes()):
        await until(lambda: bool(second.seen))
    assert [(job, State.CANCELLED)] == second.seen


async def test_a_change_that_fails_is_tried_until_it_is_handled(world: World) -> None:
    """In its place in the order."""
    jobs = [await _add(world), await _add(world)]
    notes = Notes()
    notes.failures = 3
    async with _following(world, notes):
        await until(lambda: len(notes.seen) == 2)
    assert jobs == [job for job, _ in notes.seen]


async def test_an_hourly_replay_repeats_nothing_and_moves_the_mark(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was handled in this run is known by its revision."""
    monkeypatch.setattr("vitascope.publish.follow.REPLAY_EVERY_S", 0.01)
    await _add(world)
    async with _following(world, notes := Notes()):
        await until(lambda: KEY in world.store.objects)
        before = world.store.objects[KEY]
        world.time.advance(5)
        await until(lambda: world.store.objects[KEY] != before, turns=1_000_000)
    assert 1 == len(notes.seen)


@pytest.mark.parametrize("mark", [b"{}", b"\xff", b'{"ended_before": "soon"}'])
async def test_a_mark_that_cannot_be_read_is_none(world: World, mark: bytes) -> None:
    """Everything is handled again: too much is right, too little is not."""
    world.store.objects[KEY] = mark
    await _add(world, is_ended=True)
    world.time.advance(timedelta(days=1).total_seconds())
    async with _following(world, notes := Notes()):
        await until(lambda: bool(notes.seen))


async def test_without_a_store_or_a_ledger_it_waits_and_goes_on(world: World) -> None:
    """The mark is a matter of economy; the ledger comes back."""
    world.store.is_away = True
    world.broker.set_connected(connected=False)
    async with _following(world, notes := Notes()):
        for _ in range(5):
            await asyncio.sleep(0)
        world.broker.set_connected(connected=True)
        await _add(world)
        await until(lambda: bool(notes.seen))
    assert {} == world.store.objects


@pytest.mark.parametrize(
    "rebuilt_after",
    [pytest.param(None, id="not-rebuilt-yet"), pytest.param(timedelta(0), id="rebuilt-after-the-mark")],
)
async def test_a_mark_of_a_lost_ledger_counts_for_nothing(world: World, rebuilt_after: timedelta | None) -> None:
    """Jobs that ended long ago come into the new ledger, and what was made of them is lost: all are handled again."""
    await _mark_complete(world)
    old = await _add(world, is_ended=True)
    record = (await world.load(old)).record
    world.time.advance(2 * SKEW.total_seconds())
    async with _following(world, Notes()):
        await until(lambda: KEY in world.store.objects)
    world.broker.lose()
    await world.broker.ledger.create(record)
    if rebuilt_after is not None:
        birth, at = await world.broker.ledger.get_birth(), world.time.now() + rebuilt_after
        await save_mark(world.store, RebuildMark(birth=birth, at=at))
    async with _following(world, second := Notes()):
        await until(lambda: bool(second.seen))
    assert [(old, State.CANCELLED)] == second.seen


async def test_a_follower_that_ran_through_the_loss_handles_what_is_rebuilt(world: World) -> None:
    """Its memory is of revisions, and those rise over the loss."""
    async with _following(world, notes := Notes()):
        job = await _add(world, is_ended=True)
        await until(lambda: (job, State.CANCELLED) in notes.seen)
        record = (await world.load(job)).record
        world.broker.lose()
        await world.broker.ledger.create(record)
        await until(lambda: notes.seen.count((job, State.CANCELLED)) == 2)
