"""What every ledger promises."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from contract.real import Ports
from records import NOW, queued_record, record_in
from vitascope.contracts import transitions
from vitascope.contracts.flow import Stage, State
from vitascope.contracts.jobs import JobRecord
from vitascope.runtime.advance import advance
from vitascope.runtime.ports import MIN_HISTORY, Conflict, Stamped


async def test_created_record_comes_back_equal(ports: Ports) -> None:
    """What was stored is what is read, with the revision that create returned."""
    record = queued_record(prompt='ünïcode "quotes"\n and 😀')
    stamped = await ports.ledger.create(record)
    assert Stamped(record, stamped.revision) == await ports.ledger.get(record.id)


async def test_unknown_job_is_none(ports: Ports) -> None:
    """A job that nobody created is absent, not an error."""
    assert await ports.ledger.get(queued_record().id) is None


async def test_second_create_conflicts(ports: Ports) -> None:
    """An id can be taken once."""
    record = queued_record()
    await ports.ledger.create(record)
    with pytest.raises(Conflict):
        await ports.ledger.create(record)


async def test_replace_raises_the_revision(ports: Ports) -> None:
    """Each change has a higher revision, and the newest is what is read."""
    first = await ports.ledger.create(queued_record())
    second = await ports.ledger.replace(first, transitions.start(first.record, "g0", NOW))
    assert second.revision > first.revision
    assert second == await ports.ledger.get(first.record.id)


async def test_replace_of_an_old_revision_conflicts(ports: Ports) -> None:
    """Of two writers that read the same, the second is told, and changes nothing."""
    first = await ports.ledger.create(queued_record())
    winner = await ports.ledger.replace(first, transitions.start(first.record, "g0", NOW))
    with pytest.raises(Conflict):
        await ports.ledger.replace(first, transitions.start(first.record, "g1", NOW))
    assert winner == await ports.ledger.get(first.record.id)


async def test_replace_of_a_record_that_was_never_created_conflicts(ports: Ports) -> None:
    """Compare-and-set cannot create."""
    record = queued_record()
    with pytest.raises(Conflict):
        await ports.ledger.replace(Stamped(record, 1), transitions.start(record, "g0", NOW))
    assert await ports.ledger.get(record.id) is None


async def test_illegal_successor_is_refused(ports: Ports) -> None:
    """Whatever the caller did, the rules of the state machine hold."""
    stamped = await ports.ledger.create(record_in(State.SUCCEEDED))
    revived = stamped.record.model_copy(update={"run": stamped.record.run.model_copy(update={"state": State.QUEUED})})
    with pytest.raises(transitions.IllegalTransition):
        await ports.ledger.replace(stamped, revived)
    assert stamped == await ports.ledger.get(stamped.record.id)


async def test_record_that_is_too_large_is_refused(ports: Ports) -> None:
    """More than 8 KiB is no record."""
    with pytest.raises(ValueError, match="8192"):
        await ports.ledger.create(queued_record(prompt="x" * 9000))


async def test_one_of_many_writers_wins(ports: Ports) -> None:
    """Twenty writers at once: one success, nineteen conflicts."""
    first = await ports.ledger.create(queued_record())
    changes = [transitions.start(first.record, f"g{number}", NOW) for number in range(20)]
    tries = [ports.ledger.replace(first, changed) for changed in changes]
    outcomes = await asyncio.gather(*tries, return_exceptions=True)
    winners = [outcome for outcome in outcomes if isinstance(outcome, Stamped)]
    assert 19 == sum(isinstance(outcome, Conflict) for outcome in outcomes)
    assert winners == [await ports.ledger.get(first.record.id)]


async def test_advance_loses_no_update(ports: Ports) -> None:
    """Concurrent changes of one record are all made, one after the other."""
    record = record_in(State.RUNNING)
    await ports.ledger.create(record)

    def count(current: JobRecord) -> JobRecord:
        return transitions.note_failure(current, 1, Stage.DENOISE, "again")

    await asyncio.gather(*(advance(ports.ledger, record.id, count) for _ in range(8)))
    newest = await ports.ledger.get(record.id)
    assert newest is not None
    assert 8 == newest.record.run.failures


async def test_watch_of_one_job_gives_newest_then_none_then_changes(ports: Ports) -> None:
    """A watcher starts from what is there, knows when it has seen it, and then hears of each change."""
    first = await ports.ledger.create(queued_record())
    await ports.ledger.create(queued_record())
    async with ports.ledger.watch(first.record.id) as news:
        assert first == await anext(news)
        assert await anext(news) is None
        second = await ports.ledger.replace(first, transitions.start(first.record, "g0", NOW))
        assert second == await anext(news)


async def test_watch_of_nothing_says_so(ports: Ports) -> None:
    """With nothing there, None comes at once, and then what is created."""
    record = queued_record()
    async with ports.ledger.watch(record.id) as news:
        assert await anext(news) is None
        stamped = await ports.ledger.create(record)
        assert stamped == await anext(news)


async def test_watch_of_all_sees_every_record(ports: Ports) -> None:
    """More records than a watcher buffers, all of them before the None."""
    mine = {(await ports.ledger.create(queued_record())).record.id for _ in range(300)}
    seen: set[str] = set()
    async with ports.ledger.watch() as news:
        async for stamped in news:
            if stamped is None:
                break
            seen.add(stamped.record.id)
    assert mine <= seen


async def test_slow_watcher_ends_with_the_newest(ports: Ports) -> None:
    """A watcher that reads nothing for many changes still hears the last one."""
    current = await ports.ledger.create(record_in(State.RUNNING))
    async with ports.ledger.watch(current.record.id) as news:
        for number in range(40):
            changed = transitions.note_failure(current.record, 1, Stage.DENOISE, str(number))
            current = await ports.ledger.replace(current, changed)
        last = current.revision
        heard = [stamped async for stamped in _until(news, last)]
    assert current == heard[-1]
    revisions = [stamped.revision for stamped in heard]
    assert sorted(revisions) == revisions


async def test_remember_returns_what_was_first(ports: Ports, unique: str) -> None:
    """The first value of a key is stored; later ones are answered with it."""
    assert await ports.ledger.remember(unique, "a key / with: anything > *", b"one") is None
    assert b"one" == await ports.ledger.remember(unique, "a key / with: anything > *", b"two")
    assert b"one" == await ports.ledger.remember(unique, "a key / with: anything > *", b"one")


async def test_remember_keeps_tenants_apart(ports: Ports, unique: str) -> None:
    """Two tenants may use one key."""
    assert await ports.ledger.remember(unique, "key", b"one") is None
    assert await ports.ledger.remember(f"{unique}x", "key", b"two") is None


async def test_remember_has_one_winner(ports: Ports, unique: str) -> None:
    """Of many at once one is first, and the others are told its value."""
    values = [str(number).encode() for number in range(10)]
    answers = await asyncio.gather(*(ports.ledger.remember(unique, "key", value) for value in values))
    winner = values[answers.index(None)]
    assert 1 == answers.count(None)
    assert {winner} == {answer for answer in answers if answer is not None}


async def test_forgotten_record_is_gone(ports: Ports) -> None:
    """Nobody finds it, neither by its id nor in a new watch, and whoever had read it can change nothing any more."""
    first = await ports.ledger.create(queued_record())
    second = await ports.ledger.replace(first, transitions.cancel(first.record, NOW))
    await ports.ledger.forget(second)
    assert await ports.ledger.get(first.record.id) is None
    async with ports.ledger.watch(first.record.id) as news:
        assert await anext(news) is None
    for late in (
        ports.ledger.replace(second, transitions.expire(second.record, NOW)),
        ports.ledger.forget(second),
        ports.ledger.forget(first),
    ):
        with pytest.raises(Conflict):
            await late
    assert await ports.ledger.get(first.record.id) is None


async def test_record_that_has_changed_is_not_forgotten(ports: Ports) -> None:
    """Who forgets what he has read loses against a change since, and nothing is lost with it."""
    first = await ports.ledger.create(queued_record())
    second = await ports.ledger.replace(first, transitions.start(first.record, "g0", NOW))
    with pytest.raises(Conflict):
        await ports.ledger.forget(first)
    assert second == await ports.ledger.get(first.record.id)


async def test_record_that_was_never_created_cannot_be_forgotten(ports: Ports) -> None:
    """There is nothing to take out."""
    with pytest.raises(Conflict):
        await ports.ledger.forget(Stamped(queued_record(), 1))


async def test_watchers_are_told_nothing_of_what_is_forgotten(ports: Ports) -> None:
    """A watch goes on with the next change of another record."""
    first = await ports.ledger.create(queued_record())
    async with ports.ledger.watch() as news:
        while await anext(news) is not None:
            pass
        await ports.ledger.forget(first)
        other = await ports.ledger.create(queued_record())
        assert other == await anext(news)


async def test_history_since_a_revision(ports: Ports) -> None:
    """That revision and each later one, oldest first; of this job alone."""
    first = await ports.ledger.create(queued_record())
    other = await ports.ledger.create(queued_record())
    second = await ports.ledger.replace(first, transitions.start(first.record, "g0", NOW))
    third = await ports.ledger.replace(second, transitions.cancel(second.record, NOW))
    job = first.record.id
    assert [first, second, third] == list(await ports.ledger.read_history(job, first.revision))
    assert [third] == list(await ports.ledger.read_history(job, third.revision))
    assert [] == list(await ports.ledger.read_history(job, other.revision))
    assert [] == list(await ports.ledger.read_history(job, third.revision + 1))
    assert [] == list(await ports.ledger.read_history(job, 0))


async def test_history_that_is_no_longer_kept_is_empty(ports: Ports) -> None:
    """Only the last revisions are; one that is among them shows all that follow."""
    stamps = [await ports.ledger.create(queued_record())]
    for number in range(MIN_HISTORY):
        run = stamps[0].record.run.model_copy(update={"failures": number})
        stamps.append(await ports.ledger.replace(stamps[-1], stamps[0].record.model_copy(update={"run": run})))
    job = stamps[0].record.id
    assert [] == list(await ports.ledger.read_history(job, stamps[0].revision))
    assert stamps[1:] == list(await ports.ledger.read_history(job, stamps[1].revision))


async def test_forgotten_record_has_no_history(ports: Ports) -> None:
    """As if it had never been."""
    first = await ports.ledger.create(queued_record())
    await ports.ledger.forget(first)
    assert [] == list(await ports.ledger.read_history(first.record.id, first.revision))


async def test_ledger_knows_its_birth(ports: Ports) -> None:
    """It is a moment of the past, the same for everybody."""
    birth = await ports.ledger.get_birth()
    assert birth <= datetime.now(UTC)
    await ports.ledger.create(queued_record())
    assert birth == await ports.ledger.get_birth()


async def _until(news: AsyncIterator[Stamped | None], revision: int) -> AsyncIterator[Stamped]:
    async for stamped in news:
        if stamped is not None:
            yield stamped
            if stamped.revision >= revision:
                return
