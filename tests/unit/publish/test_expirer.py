"""Expiry: the record first, then the files; and forgetting: the files, the copy, then the record."""

from datetime import timedelta

import pytest

from records import record_in
from unit.publish.kept import DAY, RETENTION, Kept
from vitascope.contracts.expiry import SCRATCH
from vitascope.contracts.failures import VitascopeError
from vitascope.contracts.flow import State
from vitascope.publish.expirer import Expirer
from vitascope.publish.mend import restore_copy
from vitascope.runtime.ports import Stamped

SECOND = timedelta(seconds=1)


def _expirer(kept: Kept) -> Expirer:
    return Expirer(kept.ledger, kept.store, RETENTION)


@pytest.mark.parametrize(
    ("state", "life"),
    [
        pytest.param(State.SUCCEEDED, RETENTION.files, id="succeeded"),
        pytest.param(State.CANCELLED, RETENTION.files, id="cancelled"),
        pytest.param(State.FAILED, SCRATCH, id="failed"),
    ],
)
async def test_an_ended_job_is_due_when_its_time_has_come(kept: Kept, state: State, life: timedelta) -> None:
    """Not a second before."""
    ended = await kept.add(state)
    kept.pass_time(life - SECOND)
    assert [] == (await _expirer(kept).find_due(kept.time.now())).to_expire
    kept.pass_time(SECOND)
    assert [ended] == (await _expirer(kept).find_due(kept.time.now())).to_expire


async def test_live_jobs_are_never_due(kept: Kept) -> None:
    """However long they wait; they are listed, so that somebody looks after their copies."""
    live = [(await kept.add(s)).record.id for s in (State.QUEUED, State.RUNNING, State.DECODING, State.ENCODING)]
    kept.pass_time(400 * DAY)
    due = await _expirer(kept).find_due(kept.time.now())
    assert (live, [], []) == (due.live, due.to_expire, due.to_forget)


async def test_the_record_expires_and_the_files_are_left_to_the_sweeper(kept: Kept) -> None:
    """Whoever reads the record in between is told the truth."""
    ended, now = await kept.add(State.SUCCEEDED), kept.time.now()
    assert await _expirer(kept).expire(ended, now)
    record = await kept.load(ended.record.id)
    assert record is not None
    assert (State.EXPIRED, now) == (record.state, record.times.expires)
    assert "outputs" in kept.list_keys(record.id)
    assert not await _expirer(kept).expire(ended, now), "a second time changes nothing"


async def test_an_expired_job_is_forgotten_with_all_that_is_left(kept: Kept) -> None:
    """Once its time as an expired one is over."""
    expired = await kept.ledger.create(record_in(State.EXPIRED, kept.time.now()))
    kept.pass_time(RETENTION.record - SECOND)
    assert [] == (await _expirer(kept).find_due(kept.time.now())).to_forget
    kept.pass_time(SECOND)
    due = await _expirer(kept).find_due(kept.time.now())
    assert ([expired], []) == (due.to_forget, due.to_expire)
    assert await _expirer(kept).forget(expired)
    assert (None, []) == (await kept.load(expired.record.id), kept.list_keys(expired.record.id))


async def test_without_a_store_the_record_is_kept(kept: Kept) -> None:
    """Or its files would be nobody's."""
    expired = await kept.add(State.EXPIRED)
    kept.store.is_away = True
    with pytest.raises(VitascopeError):
        await _expirer(kept).forget(expired)
    assert await kept.load(expired.record.id) is not None


async def test_a_page_ends_the_walk(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that memory does not grow with the ledger."""
    monkeypatch.setattr("vitascope.publish.expirer.PAGE", 2)
    for _ in range(3):
        await kept.add(State.SUCCEEDED)
    kept.pass_time(RETENTION.files)
    due = await _expirer(kept).find_due(kept.time.now())
    assert (2, True) == (len(due.to_expire), due.is_full)


async def test_a_missing_copy_is_put_again(kept: Kept) -> None:
    """Of the newest record; one that is there is left alone, and a job that is gone has none."""
    job = (await kept.add(State.RUNNING)).record.id
    assert not await restore_copy(kept.ledger, kept.store, job)
    kept.store.objects.clear()
    assert await restore_copy(kept.ledger, kept.store, job)
    assert ["records"] == kept.list_keys(job)
    kept.broker.lose()
    kept.store.objects.clear()
    assert not await restore_copy(kept.ledger, kept.store, job)
    assert [] == kept.list_keys(job)


async def test_of_a_job_that_changed_nothing_is_forgotten(kept: Kept) -> None:
    """Compare-and-set: another process has been here."""
    ended = await kept.add(State.SUCCEEDED)
    old = Stamped(record_in(State.EXPIRED, kept.time.now()).model_copy(update={"id": ended.record.id}), 10**9)
    assert not await _expirer(kept).forget(old)
    assert await kept.load(ended.record.id) is not None
