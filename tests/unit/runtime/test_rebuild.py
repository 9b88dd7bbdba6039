"""A lost ledger comes back from the copies: every job once, with its work, and no stale process in its way."""

import asyncio
from datetime import timedelta

import pytest

from records import object_ref, queued_record, record_in
from vitascope.adapters.memory import HeldTime, MemoryBroker, MemoryObjectStore
from vitascope.contracts import transitions
from vitascope.contracts.flow import State
from vitascope.contracts.idempotency import Draw, recover_draw
from vitascope.contracts.jobs import Checkpoint, JobRecord
from vitascope.contracts.objects import REBUILT_KEY, record_key
from vitascope.contracts.transitions import LEDGER_LOST_ATTEMPTS
from vitascope.runtime import rebuild
from vitascope.runtime.completeness import SKEW, Completeness
from vitascope.runtime.copies import put_copy
from vitascope.runtime.ports import Conflict, Stamped
from vitascope.runtime.rebuild import Rebuilder, RebuildReport, drop_missing, is_lost

LATER_S = 3600.0
LATENTS = b"xyz"


class World:
    """A ledger, a store with the same clock, and copies of jobs that were in a ledger before."""

    def __init__(self) -> None:
        self.time = HeldTime()
        self.broker = MemoryBroker(timing=self.time)
        self.store = MemoryObjectStore(clock=self.time)

    async def copy(self, record: JobRecord, *objects: str) -> JobRecord:
        """Put a copy of a record, and objects that it points to, into the store."""
        await put_copy(self.store, record)
        for key in objects:
            await self.store.put(key, LATENTS, "application/octet-stream")
        return record

    def lose(self) -> None:
        """The ledger goes, and some time later there is a new one."""
        self.time.advance(LATER_S)
        self.broker.lose()

    async def rebuild(self, *, with_younger: bool = False) -> RebuildReport:
        return await Rebuilder(self.broker.ledger, self.store, self.time).run(with_younger=with_younger)

    async def get(self, job: JobRecord) -> JobRecord | None:
        stamped = await self.broker.ledger.get(job.id)
        return stamped.record if stamped else None

    def read_copy(self, job: JobRecord) -> JobRecord:
        return JobRecord.from_bytes(self.store.objects[record_key(job)])


@pytest.fixture
def world() -> World:
    return World()


@pytest.mark.parametrize("state", [State.SUCCEEDED, State.FAILED, State.CANCELLED, State.EXPIRED])
async def test_an_ended_job_comes_back_as_it_was(world: World, state: State) -> None:
    """With its result, and without a change of its copy."""
    ended = await world.copy(record_in(state, world.time.now()))
    world.lose()
    report = await world.rebuild()
    assert (1, 0, 1) == (report.copies, report.live, report.ended)
    assert ended == await world.get(ended) == world.read_copy(ended)


@pytest.mark.parametrize("state", [State.SUCCEEDED, State.FAILED, State.CANCELLED, State.EXPIRED])
async def test_a_write_that_comes_late_undoes_no_end(world: World, state: State) -> None:
    """The network held an older copy back until long after the newer one."""
    ended = await world.copy(record_in(state, world.time.now()))
    running = record_in(State.RUNNING, world.time.now()).model_copy(update={"id": ended.id})
    await world.copy(running)
    world.lose()
    report = await world.rebuild()
    assert (1, 0, 1) == (report.copies, report.live, report.ended)
    assert ended == await world.get(ended)


@pytest.mark.parametrize(
    ("after", "before"),
    [
        pytest.param(State.QUEUED, State.QUEUED, id="queued"),
        pytest.param(State.QUEUED, State.RUNNING, id="running waits for a group again"),
        pytest.param(State.DECODING, State.DECODING, id="decoding goes on from its latents"),
        pytest.param(State.DECODING, State.ENCODING, id="encoding decodes again"),
    ],
)
async def test_a_live_job_goes_on_with_an_attempt_that_nobody_holds(world: World, after: State, before: State) -> None:
    """And its copy says so before the ledger does, so that a second loss raises it once more."""
    job = await world.copy(record_in(before, world.time.now()), object_ref().key)
    world.lose()
    report = await world.rebuild()
    first = await world.get(job)
    assert first is not None
    assert (1, after) == (report.live, first.state)
    assert job.run.attempt + LEDGER_LOST_ATTEMPTS == first.run.attempt
    assert first == world.read_copy(job)
    world.lose()
    await world.rebuild()
    second = await world.get(job)
    assert second is not None
    assert job.run.attempt + 2 * LEDGER_LOST_ATTEMPTS == second.run.attempt


async def test_what_the_ledger_has_stays_as_it_is(world: World) -> None:
    """Somebody made it already, or it was never lost."""
    job = await world.copy(queued_record(world.time.now()))
    world.lose()
    running = transitions.start(job, "g0", world.time.now())
    await world.broker.ledger.create(running)
    report = await world.rebuild()
    assert (1, 1, 0) == (report.copies, report.present, report.rebuilt)
    assert running == await world.get(job)


async def test_an_acceptance_that_was_never_answered_is_no_job(world: World) -> None:
    """A copy without a record that is younger than the ledger; by hand it can be taken all the same."""
    world.lose()
    world.time.advance(2 * SKEW.total_seconds())
    job = await world.copy(queued_record(world.time.now()))
    report = await world.rebuild()
    assert (1, 0, None) == (report.left, report.rebuilt, await world.get(job))
    report = await world.rebuild(with_younger=True)
    assert (0, 1) == (report.left, report.rebuilt)
    assert await world.get(job) is not None


async def test_the_ledger_is_marked_and_not_rebuilt_again(world: World) -> None:
    """A start with a complete ledger reads no copy."""
    world.lose()
    rebuilder = Rebuilder(world.broker.ledger, world.store, world.time)
    assert await rebuilder.complete() is not None
    assert await Completeness(world.broker.ledger, world.store).is_complete()
    assert await rebuilder.complete() is None
    world.lose()
    assert await rebuilder.complete() is not None


async def test_broken_copies_stop_nothing(world: World) -> None:
    """They are counted and listed; the ledger is complete without them."""
    good = await world.copy(queued_record(world.time.now()))
    bad, newer, other = (queued_record(world.time.now()) for _ in range(3))
    world.store.objects[record_key(bad)] = b"{"
    world.store.objects[record_key(newer)] = newer.model_copy(update={"version": 2}).to_bytes()
    world.store.objects[record_key(other)] = good.to_bytes()
    world.store.objects["records/default/readme.txt"] = b"hello"
    world.lose()
    report = await world.rebuild()
    broken = {record_key(bad), record_key(newer), record_key(other), "records/default/readme.txt"}
    assert (4, broken) == (report.broken, set(report.broken_keys))
    assert await world.get(good) is not None
    assert [None, None, None] == [await world.get(job) for job in (bad, newer, other)]
    assert REBUILT_KEY in world.store.objects


async def test_what_a_key_stands_for_comes_back(world: World) -> None:
    """Also for a job whose record was made by one who died before he remembered its key."""
    now = world.time.now()
    keyed = [_with_key(queued_record(now), f"key {number}") for number in range(2)]
    for job in keyed:
        await world.copy(job)
    world.lose()
    await world.broker.ledger.create(keyed[1])
    await world.rebuild()
    for job in keyed:
        remembered = await world.broker.ledger.remember("default", job.admission.idempotency_key or "", b"other")
        assert remembered is not None
        draw = Draw.model_validate_json(remembered)
        assert (job.id, now, job.request.seed, "b" * 64) == (draw.job, draw.at, draw.seed, draw.body)
    assert recover_draw(queued_record()) is None


async def test_two_at_once_make_every_job_once(world: World) -> None:
    """Of two that create a record one wins; together they have counted each job as theirs once."""
    jobs = [await world.copy(record_in(State.RUNNING, world.time.now())) for _ in range(50)]
    world.lose()
    reports = await asyncio.gather(world.rebuild(), world.rebuild())
    assert 50 == sum(report.rebuilt for report in reports)
    for job in jobs:
        record = await world.get(job)
        assert record is not None
        assert (State.QUEUED, True) == (record.state, record.run.attempt > LEDGER_LOST_ATTEMPTS)


async def test_one_that_died_halfway_is_finished_by_the_next(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the copy and the record: the attempt rises twice, which does no harm."""
    job = await world.copy(record_in(State.RUNNING, world.time.now()))
    world.lose()

    async def die(_record: JobRecord) -> Stamped:
        raise asyncio.CancelledError

    with monkeypatch.context() as patch:
        patch.setattr(world.broker.ledger, "create", die)
        with pytest.raises(asyncio.CancelledError):
            await world.rebuild()
    assert REBUILT_KEY not in world.store.objects
    await world.rebuild()
    record = await world.get(job)
    assert record is not None
    assert (State.QUEUED, 1 + 2 * LEDGER_LOST_ATTEMPTS) == (record.state, record.run.attempt)


async def test_many_copies_in_batches(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """No batch is left out, the last and smaller one neither; few are in work at once."""
    monkeypatch.setattr(rebuild, "BATCH", 32)
    for _ in range(100):
        await world.copy(queued_record(world.time.now()))
    world.lose()
    busy, most, create = 0, 0, world.broker.ledger.create

    async def count(record: JobRecord) -> Stamped:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        await asyncio.sleep(0)
        busy -= 1
        return await create(record)

    monkeypatch.setattr(world.broker.ledger, "create", count)
    report = await world.rebuild()
    assert (100, 100) == (report.copies, report.live)
    assert 1 < most <= rebuild.CONCURRENCY


async def test_a_twin_that_was_faster_is_no_failure(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The acceptance of a job was still at it when the ledger was lost."""
    await world.copy(queued_record(world.time.now()))
    world.lose()

    async def conflict(_record: JobRecord) -> Stamped:
        raise Conflict

    monkeypatch.setattr(world.broker.ledger, "create", conflict)
    report = await world.rebuild()
    assert (1, 0) == (report.present, report.rebuilt)


async def test_a_twin_that_was_faster_keeps_its_copy(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its job has even ended while this one was about to create it: the copy says so, not what was read before."""
    before = await world.copy(record_in(State.RUNNING, world.time.now()))
    world.lose()
    real, ended = world.broker.ledger.create, transitions.cancel(transitions.rebuild(before), world.time.now())

    async def come_second(record: JobRecord) -> Stamped:
        await real(ended)
        return await real(record)

    monkeypatch.setattr(world.broker.ledger, "create", come_second)
    report = await world.rebuild()
    assert (1, 0) == (report.present, report.rebuilt)
    assert ended == await world.get(before) == world.read_copy(ended)


async def test_what_is_gone_from_the_store_is_made_again(world: World) -> None:
    """An old copy may point to latents that have expired: the job starts anew instead of failing."""
    job = await world.copy(record_in(State.DECODING, world.time.now()))
    world.lose()
    await world.rebuild()
    record = await world.get(job)
    assert record is not None
    assert (State.QUEUED, None, 0) == (record.state, record.run.latents, record.run.step)


CHECKPOINT = Checkpoint(object=object_ref("checkpoints/x"), step=10, fingerprint="f")


@pytest.mark.parametrize(
    ("state", "step", "missing"),
    [
        pytest.param(State.DECODING, 20, frozenset(), id="nothing"),
        pytest.param(State.DECODING, 20, frozenset({"checkpoints/x"}), id="the checkpoint, which has served"),
        pytest.param(State.QUEUED, 10, frozenset({"latents/default/x"}), id="the latents"),
        pytest.param(State.QUEUED, 0, frozenset({"latents/default/x", "checkpoints/x"}), id="both"),
    ],
)
def test_where_a_job_goes_on_without_what_is_missing(state: State, step: int, missing: frozenset[str]) -> None:
    """From the latest point that is still there."""
    decoding = record_in(State.DECODING)
    record = decoding.model_copy(update={"run": decoding.run.model_copy(update={"checkpoint": CHECKPOINT})})
    run = drop_missing(record, missing).run
    assert (state, step) == (run.state, run.step)
    assert (run.checkpoint is None) is (step == 0)


def test_a_queued_job_without_its_checkpoint_starts_anew() -> None:
    """And one that has it goes on from there."""
    queued = queued_record()
    record = queued.model_copy(update={"run": queued.run.model_copy(update={"checkpoint": CHECKPOINT, "step": 10})})
    assert record == drop_missing(record, frozenset())
    run = drop_missing(record, frozenset({"checkpoints/x"})).run
    assert (None, 0) == (run.checkpoint, run.step)


DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("expected", "state", "accepted", "put"),
    [
        pytest.param(True, State.QUEUED, -DAY, -DAY, id="older than the ledger"),
        pytest.param(True, State.QUEUED, DAY, -DAY, id="accepted by a clock that is ahead"),
        pytest.param(True, State.QUEUED, -DAY, DAY, id="written again under this ledger"),
        pytest.param(True, State.RUNNING, DAY, DAY, id="has been dispatched, so it had a record"),
        pytest.param(True, State.SUCCEEDED, DAY, DAY, id="has ended, so it had a record"),
        pytest.param(False, State.QUEUED, DAY, DAY, id="an acceptance that was never answered"),
        pytest.param(False, State.EXPIRED, DAY, DAY, id="forgotten"),
    ],
)
def test_which_jobs_were_in_a_lost_ledger(
    state: State, accepted: timedelta, put: timedelta, *, expected: bool, world: World
) -> None:
    """No single clock decides."""
    birth = world.time.now()
    assert expected is is_lost(record_in(state, birth + accepted), birth + put, birth)


def _with_key(record: JobRecord, key: str) -> JobRecord:
    admission = record.admission.model_copy(update={"idempotency_key": key, "body_sha256": "b" * 64})
    return record.model_copy(update={"admission": admission})
