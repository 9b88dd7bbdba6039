"""The log of changes: in order, nothing twice, and never a gap without a word."""

import asyncio
from datetime import timedelta

import pytest

from records import NOW, queued_record, record_in
from vitascope.adapters.memory import MemoryBroker
from vitascope.contracts import transitions
from vitascope.contracts.flow import State
from vitascope.contracts.jobs import JobRecord
from vitascope.runtime.change_log import MAX_LAG, ChangeLog, make_change
from vitascope.runtime.job_index import JobIndex
from vitascope.runtime.ports import Stamped


def _add(log: ChangeLog, *stamps: tuple[JobRecord, int]) -> None:
    for record, revision in stamps:
        log.add(Stamped(record, revision))


def _revisions(log: ChangeLog, after: int, tenant: str = "default") -> list[int]:
    return [change.revision for change in log.read(tenant, after)]


def test_a_reader_gets_what_follows_its_place() -> None:
    """Of its own tenant, oldest first."""
    log = ChangeLog()
    first, other = queued_record(), queued_record(tenant="other")
    _add(log, (first, 1), (other, 2), (transitions.start(first, "g0", NOW), 3))
    assert [1, 3] == _revisions(log, 0)
    assert [3] == _revisions(log, 2)
    assert [] == _revisions(log, 3)
    assert [2] == _revisions(log, 0, "other")
    assert State.RUNNING is log.read("default", 1)[0].state


def test_what_is_known_or_shows_nothing_new_is_left_out() -> None:
    """Copies after a gap of the feed, and checkpoints."""
    log = ChangeLog()
    running = record_in(State.RUNNING)
    noted = running.model_copy(update={"run": running.run.model_copy(update={"step": 10})})
    _add(log, (running, 5), (running, 5), (queued_record(), 4), (noted, 6))
    assert [5] == _revisions(log, 0)
    assert 6 == log.newest


def test_a_place_that_is_no_longer_kept_is_refused() -> None:
    """The oldest change went, so only those who have seen it can go on."""
    log = ChangeLog(max_kept=2)
    _add(log, *[(queued_record(NOW + timedelta(seconds=n)), n) for n in (1, 2, 3)])
    with pytest.raises(LookupError):
        log.read("default", 0)
    assert [2, 3] == _revisions(log, 1)


def test_a_place_that_no_replica_can_have_reached_is_refused() -> None:
    """One that another replica has reached already is not: it skips what that one has shown."""
    log = ChangeLog()
    _add(log, (queued_record(), 5))
    assert [] == _revisions(log, 9)
    _add(log, (queued_record(), 8), (queued_record(), 10))
    assert [10] == _revisions(log, 9)
    with pytest.raises(LookupError):
        log.read("default", 11 + MAX_LAG)
    with pytest.raises(LookupError):
        log.read("default", -1)


def test_what_was_there_before_is_history() -> None:
    """A replica that starts does not know how it came about; what a later feed begins with is news, in its order."""
    log = ChangeLog()
    early, late = queued_record(), queued_record(NOW + timedelta(seconds=1))
    log.begin([make_change(Stamped(late, 7)), make_change(Stamped(early, 3))])
    with pytest.raises(LookupError):
        log.read("default", 6)
    assert [] == _revisions(log, 7)
    started = transitions.start(early, "g0", NOW)
    ended = transitions.cancel(late, NOW)
    log.begin([make_change(Stamped(ended, 9)), make_change(Stamped(started, 8))])
    assert [8, 9] == _revisions(log, 7)


async def test_only_readers_of_the_tenant_are_woken() -> None:
    """And nobody who has left."""
    log, mine, others = ChangeLog(), asyncio.Event(), asyncio.Event()
    with log.listen("default", mine), log.listen("other", others):
        _add(log, (queued_record(), 1))
        assert (True, False) == (mine.is_set(), others.is_set())
    mine.clear()
    _add(log, (queued_record(), 2))
    assert not mine.is_set()


async def test_the_index_keeps_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs of before the start are history; later ones are changes, also those of an outage."""
    monkeypatch.setattr("vitascope.runtime.job_index.RETRY_S", 0.0)
    broker, index = MemoryBroker(), JobIndex()
    first = await broker.ledger.create(queued_record())
    following = asyncio.create_task(index.run(broker.ledger))
    assert await index.wait_synced(5)
    assert [] == list(index.changes.read("default", first.revision))
    news = asyncio.Event()
    with index.changes.listen("default", news):
        second = await broker.ledger.replace(first, transitions.start(first.record, "g0", NOW))
        await asyncio.wait_for(news.wait(), 5)
    assert [second.revision] == _revisions(index.changes, first.revision)
    following.cancel()
    await asyncio.wait({following})
