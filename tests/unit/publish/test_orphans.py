"""Finding what nobody has a use for, and above all not finding what somebody has."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from records import queued_record, record_in
from unit.publish.kept import DAY, HOUR, Kept, name_files, with_files
from vitascope.contracts import objects
from vitascope.contracts.events import WorkItem
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.flow import Stage, State
from vitascope.contracts.jobs import JobRecord
from vitascope.contracts.subjects import work_subject
from vitascope.publish.epoch import read_epoch
from vitascope.publish.orphans import Orphan, OrphanFinder
from vitascope.runtime.copies import put_copy
from vitascope.runtime.ports import Stamped, UnfinishedUpload


def _finder(kept: Kept) -> OrphanFinder:
    return OrphanFinder(kept.ledger, kept.bus, kept.store)


async def _collect(batches: AsyncIterator[list[Orphan]]) -> list[str]:
    return [orphan.name for batch in [batch async for batch in batches] for orphan in batch]


async def _find_objects(kept: Kept) -> list[str]:
    return await _collect(_finder(kept).find_objects(await read_epoch(kept.ledger, kept.store, kept.time)))


async def _find_copies(kept: Kept) -> list[str]:
    return await _collect(_finder(kept).find_copies(await read_epoch(kept.ledger, kept.store, kept.time)))


# ---- objects --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("state", [State.QUEUED, State.RUNNING, State.DECODING, State.ENCODING], ids=str)
async def test_whatever_a_live_job_needs_is_none(kept: Kept, state: State) -> None:
    """However old it is."""
    await kept.add(state)
    kept.pass_time(30 * DAY)
    assert [] == await _find_objects(kept)


async def test_what_an_ended_job_does_not_need(kept: Kept) -> None:
    """Once it is older than the grace time: a sweeper may be at it."""
    record = (await kept.add(State.SUCCEEDED)).record
    assert [] == await _find_objects(kept)
    kept.pass_time(HOUR)
    assert ["checkpoints", "latents", "frames"] == [key.split("/")[0] for key in await _find_objects(kept)]
    assert all(record.id in key for key in await _find_objects(kept))


async def test_what_an_old_attempt_left(kept: Kept) -> None:
    """All but the checkpoint that the record points to; the present attempt's objects stay."""
    record = (await kept.add(State.RUNNING, attempt=3)).record
    await kept.put(*name_files(record, 2), *name_files(record, 3))
    kept.pass_time(HOUR)
    gone = [key for attempt in (1, 2) for key in name_files(record, attempt) if "inputs/" not in key]
    gone.remove(objects.checkpoint_key(record, 1, 10))
    assert sorted(gone) == sorted(await _find_objects(kept))


async def test_what_the_copy_of_a_live_job_points_to_is_none(kept: Kept) -> None:
    """The record has gone on to a new checkpoint; the copy has not, and the ledger may be lost at any time."""
    stamped = await kept.add(State.RUNNING)
    key = objects.checkpoint_key(stamped.record, 3, 20)
    newer = with_files(stamped.record, attempt=3)
    assert newer.run.checkpoint is not None
    ref = newer.run.checkpoint.object.model_copy(update={"key": key})
    newer = with_files(newer, checkpoint=newer.run.checkpoint.model_copy(update={"object": ref}))
    await kept.ledger.replace(stamped, newer)
    kept.pass_time(HOUR)
    old = objects.checkpoint_key(stamped.record, 1, 10)
    assert old not in await _find_objects(kept)
    await put_copy(kept.store, newer)
    assert old in await _find_objects(kept)


async def test_a_copy_that_cannot_be_read_spares_all(kept: Kept) -> None:
    """Nobody knows what it points to."""
    record = (await kept.add(State.RUNNING, attempt=3)).record
    kept.pass_time(HOUR)
    assert await _find_objects(kept)
    kept.store.objects[objects.record_key(record)] = b"{"
    assert [] == await _find_objects(kept)


async def test_objects_of_a_job_that_never_was(kept: Kept) -> None:
    """An upload whose request was never accepted, or was forgotten since."""
    record = queued_record(kept.time.now())
    await kept.put(*name_files(record))
    assert [] == await _find_objects(kept)
    kept.pass_time(HOUR)
    assert name_files(record) == await _find_objects(kept)


async def test_as_long_as_there_is_a_copy_the_job_may_come_back(kept: Kept) -> None:
    """The ledger does not know it, whatever the reason."""
    record = queued_record(kept.time.now())
    await kept.put(*name_files(record))
    await put_copy(kept.store, record)
    kept.pass_time(30 * DAY)
    assert [] == await _find_objects(kept)


async def test_after_a_loss_of_the_ledger_nothing_of_before_is_one(kept: Kept) -> None:
    """Every job is unknown then, and not even a missing copy is a proof until the ledger has been rebuilt."""
    known, bare = (await kept.add(State.RUNNING)).record, (await kept.add(State.SUCCEEDED)).record
    await kept.store.remove([objects.record_key(bare)])
    kept.pass_time(DAY)
    kept.broker.lose()
    kept.pass_time(DAY)
    assert [] == await _find_objects(kept)
    assert [] == await _find_copies(kept)
    await kept.complete()
    assert all(bare.id in key for key in await _find_objects(kept))
    assert known.id not in "".join(await _find_objects(kept))
    assert [] == await _find_copies(kept)


async def test_after_a_loss_what_was_made_since_is_judged(kept: Kept) -> None:
    """It cannot be of a job of the lost ledger."""
    kept.broker.lose()
    kept.pass_time(2 * HOUR)
    record = queued_record(kept.time.now())
    await kept.put(*name_files(record))
    kept.pass_time(HOUR)
    assert name_files(record) == await _find_objects(kept)


async def test_foreign_objects_are_none(kept: Kept) -> None:
    """Whatever else lies in the bucket."""
    await kept.put("models/wan/model.safetensors", "outputs/readme.txt", "outputs/default/readme.txt", "state/x")
    kept.pass_time(30 * DAY)
    assert [] == await _find_objects(kept)


@pytest.mark.parametrize("part", ["bus", "store"])
async def test_an_outage_finds_nothing(kept: Kept, part: str) -> None:
    """It is an error, so that nobody takes silence for an answer."""
    await kept.put(*name_files(queued_record(kept.time.now())))
    kept.pass_time(DAY)
    epoch = await read_epoch(kept.ledger, kept.store, kept.time)
    kept.broker.set_connected(connected=part != "bus")
    kept.store.is_away = part == "store"
    with pytest.raises(VitascopeError) as caught:
        await _collect(_finder(kept).find_objects(epoch))
    assert caught.value.code in {FailureCode.BUS_UNAVAILABLE, FailureCode.STORE_UNAVAILABLE}


# ---- copies ---------------------------------------------------------------------------------------------------------
async def test_the_copy_of_an_unanswered_acceptance(kept: Kept) -> None:
    """Old, without a record, and of a job of this ledger."""
    record = queued_record(kept.time.now())
    await put_copy(kept.store, record)
    assert [] == await _find_copies(kept)
    kept.pass_time(HOUR)
    assert [objects.record_key(record)] == await _find_copies(kept)
    await kept.ledger.create(record)
    assert [] == await _find_copies(kept)


@pytest.mark.parametrize("since", [-DAY, timedelta(0), timedelta(minutes=50)], ids=["before", "at", "just after"])
async def test_a_copy_from_before_the_ledger_is_for_the_rebuild(kept: Kept, since: timedelta) -> None:
    """Also one whose door's clock was ahead; written again since or not."""
    record = queued_record(await kept.ledger.get_birth() + since)
    await put_copy(kept.store, record)
    kept.pass_time(30 * DAY)
    assert [] == await _find_copies(kept)


async def test_an_id_of_no_time_is_not_judged(kept: Kept) -> None:
    """It does not say under which ledger it was made."""
    await kept.put(f"records/default/vj_{'Z' * 26}/record.json")
    kept.pass_time(DAY)
    assert [] == await _find_copies(kept)


# ---- uploads --------------------------------------------------------------------------------------------------------
async def test_only_old_uploads_of_ours(kept: Kept) -> None:
    """One that is going on stays, and so does another's in the same bucket."""
    now, record = kept.time.now(), queued_record(kept.time.now())
    key = objects.output_key(record, 1)
    old = UnfinishedUpload(key, "1", now - DAY)
    kept.store.uploads = [old, UnfinishedUpload(key, "2", now - HOUR), UnfinishedUpload("models/x", "3", now - DAY)]
    epoch = await read_epoch(kept.ledger, kept.store, kept.time)
    assert [old] == [orphan.upload for orphan in await _finder(kept).list_uploads(epoch)]


# ---- work -----------------------------------------------------------------------------------------------------------
async def _publish(kept: Kept, record: JobRecord, stage: Stage, group: str | None = None, pool: str = "default") -> str:
    subject = work_subject(stage, pool, record.id, group)
    work = WorkItem(job=record.id, tenant="default", attempt=max(record.run.attempt, 1), stage=stage)
    await kept.bus.publish_work(subject, work.to_event(kept.time.now()))
    return subject


@pytest.mark.parametrize(
    ("state", "stage", "group", "why"),
    [
        pytest.param(State.RUNNING, Stage.DENOISE, "g0", None, id="denoise at its group"),
        pytest.param(State.DECODING, Stage.DECODE, None, None, id="decode"),
        pytest.param(State.DECODING, Stage.ENCODE, None, None, id="encode that follows decode"),
        pytest.param(State.ENCODING, Stage.ENCODE, None, None, id="encode"),
        pytest.param(State.RUNNING, Stage.DENOISE, "g1", "the job runs at g0", id="denoise at another group"),
        pytest.param(State.QUEUED, Stage.DENOISE, "g0", "the job is queued", id="denoise of a job that waits"),
        pytest.param(State.RUNNING, Stage.DECODE, None, "the job is running", id="decode of a lost ledger"),
        pytest.param(State.CANCELLED, Stage.DENOISE, "g0", "the job is cancelled", id="ended"),
    ],
)
async def test_work_that_nobody_waits_for(
    kept: Kept, state: State, stage: Stage, group: str | None, why: str | None
) -> None:
    """By what its job is doing."""
    subject = await _publish(kept, (await kept.add(state)).record, stage, group)
    found = {orphan.name: orphan.why for orphan in await _finder(kept).list_work()}
    assert ({subject: why} if why else {}) == found


async def test_work_of_no_job_or_another_pool(kept: Kept) -> None:
    """Both are found; a subject that is none of ours is not."""
    unknown = await _publish(kept, record_in(State.DECODING, kept.time.now()), Stage.DECODE)
    other = await _publish(kept, (await kept.add(State.DECODING)).record, Stage.DECODE, pool="other")
    assert {unknown, other} == {orphan.name for orphan in await _finder(kept).list_work()}


async def test_without_a_ledger_no_work_is_judged(kept: Kept) -> None:
    """An outage between the list and the question."""

    class Away:
        async def get(self, _: str) -> Stamped | None:
            raise VitascopeError(FailureCode.BUS_UNAVAILABLE)

    await _publish(kept, record_in(State.DECODING, kept.time.now()), Stage.DECODE)
    with pytest.raises(VitascopeError):
        await OrphanFinder(Away(), kept.bus, kept.store).list_work()  # type: ignore[arg-type]  # only `get` is asked
