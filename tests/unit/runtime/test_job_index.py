"""The read model of all jobs: pages, counts, queue places and listeners."""

import asyncio
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from records import NOW, queued_record, record_in
from vitascope.adapters.memory import MemoryBroker
from vitascope.contracts import transitions
from vitascope.contracts.flow import State
from vitascope.contracts.jobs import JobRecord, Tier
from vitascope.runtime.job_filter import JobFilter
from vitascope.runtime.job_index import JobIndex, QueuePlace
from vitascope.runtime.ports import Stamped

ALL = tuple(State)
MAX_CHANGES = 10


def _fill(index: JobIndex, *records: JobRecord) -> list[str]:
    for revision, record in enumerate(records, 1):
        index.apply(Stamped(record, revision))
    return [record.id for record in records]


def _queue(count: int) -> list[JobRecord]:
    return [queued_record(NOW + timedelta(seconds=i)) for i in range(count)]


def _place(record: JobRecord, number: int) -> JobRecord:
    """The record with `number` for the part of its id that is drawn by chance: two runs then sort alike."""
    return record.model_copy(update={"id": f"{record.id[:-16]}{number:016d}"})


def test_retries_are_found_by_the_job_that_failed() -> None:
    """As long as the index knows the new job, whatever becomes of it."""
    index = JobIndex()
    failed, retried = _queue(2)
    index.apply(Stamped(failed, 1))
    assert index.find_retry(failed.id) is None
    retried = retried.model_copy(update={"retry_of": failed.id})
    index.apply(Stamped(retried, 2))
    index.apply(Stamped(transitions.cancel(retried, NOW), 3))
    assert retried.id == index.find_retry(failed.id)
    index.forget(retried.id)
    assert index.find_retry(failed.id) is None


def test_pages_are_newest_first_and_say_whether_more_follow() -> None:
    """Three jobs in pages of two, both ways."""
    index = JobIndex()
    ids = _fill(index, *_queue(3))
    first = index.find_page("default", ALL, limit=2)
    assert ((ids[2], ids[1]), True) == (first.ids, first.has_more)
    rest = index.find_page("default", ALL, limit=2, after=ids[1])
    assert ((ids[0],), False) == (rest.ids, rest.has_more)
    up = index.find_page("default", ALL, limit=2, is_descending=False, after=ids[0])
    assert ((ids[1], ids[2]), False) == (up.ids, up.has_more)


def test_pages_of_some_states_and_of_one_tenant() -> None:
    """Nobody else's jobs, and only what was asked for."""
    index = JobIndex()
    mine = record_in(State.SUCCEEDED)
    _fill(index, mine, record_in(State.FAILED), record_in(State.SUCCEEDED, tenant="other"))
    assert (mine.id,) == index.find_page("default", (State.SUCCEEDED,), limit=5).ids
    assert () == index.find_page("default", (State.RUNNING,), limit=5).ids
    assert (1, 2) == (index.count(State.SUCCEEDED, "default"), index.count(State.SUCCEEDED))


@given(st.data())
def test_a_walk_shows_every_job_once_whatever_comes_meanwhile(data: st.DataObject) -> None:
    """Jobs that are there from the start are shown exactly once, while others are made and end."""
    index = JobIndex()
    count = data.draw(st.integers(0, 12))
    records = [_place(record, number) for number, record in enumerate(_queue(count))]
    present = set(_fill(index, *records))
    limit, is_descending = data.draw(st.integers(1, 4)), data.draw(st.booleans())
    shown: list[str] = []
    after, revision = None, 1000
    while True:
        page = index.find_page("default", ALL, limit=limit, after=after, is_descending=is_descending)
        shown += page.ids
        if not page.has_more:
            break
        after = page.ids[-1]
        revision += 1
        if revision > 1000 + MAX_CHANGES:
            continue
        if records and data.draw(st.booleans()):
            ended = records.pop(data.draw(st.integers(0, len(records) - 1)))
            index.apply(Stamped(transitions.cancel(ended, NOW), revision))
        else:
            made = queued_record(NOW + timedelta(seconds=data.draw(st.integers(0, 20))))
            index.apply(Stamped(_place(made, 1000 * data.draw(st.integers(1, 99)) + revision - 1000), revision))
    assert len(shown) == len(set(shown))
    assert present <= set(shown)
    assert sorted(shown, reverse=is_descending) == shown


def _labelled(second: int, tier: str, **labels: str) -> JobRecord:
    return queued_record(NOW + timedelta(seconds=second), tier=tier, labels=labels)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        pytest.param(JobFilter(), [0, 1, 2, 3], id="nothing"),
        pytest.param(JobFilter(tiers=(Tier.BATCH,)), [1, 3], id="a tier"),
        pytest.param(JobFilter(tiers=(Tier.BATCH, Tier.INTERACTIVE)), [1, 2, 3], id="tiers"),
        pytest.param(JobFilter(labels=("project=a",)), [0, 1], id="a label"),
        pytest.param(JobFilter(labels=("project",)), [0, 1, 2], id="a label's name"),
        pytest.param(JobFilter(labels=("project", "shot=1")), [1, 2], id="labels"),
        pytest.param(JobFilter(labels=("proj",)), [], id="a part of a name"),
        pytest.param(JobFilter(created_after=NOW + timedelta(seconds=1)), [2, 3], id="after"),
        pytest.param(JobFilter(created_before=NOW + timedelta(seconds=1)), [0], id="before"),
        pytest.param(JobFilter(created_after=NOW, created_before=NOW + timedelta(seconds=3)), [1, 2], id="between"),
        pytest.param(JobFilter(created_after=NOW - timedelta(days=40_000)), [0, 1, 2, 3], id="before clocks"),
        pytest.param(JobFilter(created_before=NOW - timedelta(days=40_000)), [], id="ended before clocks"),
    ],
)
@pytest.mark.parametrize("is_descending", [True, False], ids=["newest first", "oldest first"])
def test_pages_of_what_is_wanted(wanted: JobFilter, expected: list[int], *, is_descending: bool) -> None:
    """Everything that passes the filter and nothing else, also page by page."""
    index = JobIndex()
    ids = _fill(
        index,
        _labelled(0, "standard", project="a"),
        _labelled(1, "batch", project="a", shot="1"),
        _labelled(2, "interactive", project="b", shot="1"),
        _labelled(3, "batch"),
    )
    wished = [ids[place] for place in (expected[::-1] if is_descending else expected)]
    whole = index.find_page("default", ALL, limit=9, wanted=wanted, is_descending=is_descending)
    assert (wished, False) == (list(whole.ids), whole.has_more)
    shown: list[str] = []
    after = None
    for _ in range(9):
        page = index.find_page("default", ALL, limit=1, after=after, wanted=wanted, is_descending=is_descending)
        shown += page.ids
        after = page.last_id
        if not page.has_more:
            break
    assert wished == shown


def test_a_page_ends_when_enough_was_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is short, says that more may follow, and the walk goes on from where it ended."""
    monkeypatch.setattr("vitascope.runtime.job_index.MAX_SCANNED", 3)
    index = JobIndex()
    ids = _fill(index, *[_labelled(second, "batch" if second % 7 == 0 else "standard") for second in range(20)])
    wanted, shown, after, sizes = JobFilter(tiers=(Tier.BATCH,)), [], None, []
    while True:
        page = index.find_page("default", ALL, limit=5, after=after, wanted=wanted, is_descending=False)
        shown += page.ids
        sizes.append(len(page.ids))
        after = page.last_id
        if not page.has_more:
            break
    assert [ids[0], ids[7], ids[14]] == shown
    assert 0 in sizes


def test_a_deleted_job_is_in_no_list_but_still_counts_for_quotas() -> None:
    """Its owner does not see it; what it used was used."""
    index = JobIndex()
    record = record_in(State.SUCCEEDED, NOW)
    index.apply(Stamped(record, 1))
    index.apply(Stamped(transitions.delete(record, NOW), 2))
    assert () == index.find_page("default", ALL, limit=5).ids
    assert [0] * len(ALL) == [index.count(state) for state in ALL]
    assert record.result.actual_gpu_s == index.usage.measure("default", NOW).spent_gpu_s
    index.forget(record.id)
    assert 0.0 == index.usage.measure("default", NOW).spent_gpu_s


def test_deleted_jobs_do_not_fill_the_index() -> None:
    """They are forgotten like other ended ones."""
    index = JobIndex(max_jobs=2)
    records = _queue(4)
    for revision, record in enumerate(records, 1):
        index.apply(Stamped(transitions.delete(record, NOW), revision))
    assert 2 == len(index._jobs)


def test_the_place_of_a_job_that_would_be_sent_now() -> None:
    """Behind all that wait, and what runs; the first in an empty pool."""
    index = JobIndex()
    assert QueuePlace(1, 0.0) == index.foresee_place("default")
    _fill(index, record_in(State.RUNNING), *_queue(2))
    assert QueuePlace(3, 3.0) == index.foresee_place("default")
    assert 1 == index.count_running("default")


def test_a_queue_place_counts_the_work_ahead() -> None:
    """First come first served, with the running job's share that is left; 1 is next."""
    index = JobIndex()
    running = record_in(State.RUNNING)
    records = [running, *_queue(3)]
    ids = _fill(index, *records)
    assert QueuePlace(1, 1.0) == index.find_place(ids[1])
    assert QueuePlace(3, 3.0) == index.find_place(ids[3])
    assert index.find_place(ids[0]) is None
    half = running.model_copy(update={"run": running.run.model_copy(update={"step": 10})})
    index.apply(Stamped(half, 90))
    assert QueuePlace(1, 0.5) == index.find_place(ids[1])
    index.apply(Stamped(transitions.cancel(records[1], NOW), 91))
    assert QueuePlace(1, 0.5) == index.find_place(ids[2])


def test_old_news_changes_nothing() -> None:
    """A replay after a gap brings what is known, and nobody is told."""
    index = JobIndex()
    record = queued_record()
    index.apply(Stamped(transitions.start(record, "g0", NOW), 5))
    with index.listen(record.id, asyncio.Event()) as changes:
        index.apply(Stamped(record, 4))
        assert [] == list(changes.take())
    assert (0, 1) == (index.count(State.QUEUED), index.count(State.RUNNING))


def test_the_oldest_ended_jobs_are_forgotten_first() -> None:
    """The index is bounded, and what still lives stays in it."""
    index = JobIndex(max_jobs=3)
    old, older = record_in(State.SUCCEEDED, NOW + timedelta(seconds=1)), record_in(State.FAILED, NOW)
    live = queued_record(NOW - timedelta(days=1))
    _fill(index, live, old, older, queued_record())
    kept = index.find_page("default", ALL, limit=9).ids
    assert 3 == len(kept)
    assert {live.id, old.id} <= set(kept)


def test_a_forgotten_job_is_nowhere() -> None:
    """As if it had never been; twice is the same."""
    index = JobIndex()
    (job,) = _fill(index, queued_record())
    index.forget(job)
    index.forget(job)
    assert () == index.find_page("default", ALL, limit=9).ids
    assert index.find_place(job) is None


async def test_the_ledger_is_followed_through_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is there, what comes, and what came while the ledger was away."""
    monkeypatch.setattr("vitascope.runtime.job_index.RETRY_S", 0.0)
    broker, index = MemoryBroker(), JobIndex()
    assert not await index.wait_synced(0)
    first = await broker.ledger.create(queued_record())
    broker.set_connected(connected=False)
    following = asyncio.create_task(index.run(broker.ledger))
    await asyncio.sleep(0)
    assert 0 == index.count(State.QUEUED)
    broker.set_connected(connected=True)
    assert await index.wait_synced(5)
    with index.listen(first.record.id, news := asyncio.Event()) as changes:
        await broker.ledger.replace(first, transitions.cancel(first.record, NOW))
        await asyncio.wait_for(news.wait(), 5)
        assert [State.CANCELLED] == [stamped.record.state for stamped in changes.take()]
    assert 1 == index.count(State.CANCELLED)
    following.cancel()
    await asyncio.wait({following})
    assert following.cancelled()
