"""The janitor: rounds, the lease, and what a bad moment must not make it do."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from prometheus_client import REGISTRY

from doors import until
from publishing import publishing
from records import queued_record, record_in
from unit.publish.kept import DAY, HOUR, RETENTION, Kept, name_files
from vitascope.contracts import objects
from vitascope.contracts.events import WorkItem
from vitascope.contracts.expiry import Retention
from vitascope.contracts.flow import Stage, State
from vitascope.contracts.pools import GroupRow, GroupState
from vitascope.contracts.subjects import work_subject
from vitascope.publish import Publisher
from vitascope.publish.epoch import Epoch
from vitascope.publish.groups_seen import GAP, SILENCE
from vitascope.publish.janitor import JANITOR_EVERY_S, LEASE_NAME, LEASE_S, WORK_AGE, Janitor, compute_period_s
from vitascope.publish.orphans import Orphan, OrphanFinder
from vitascope.runtime.copies import put_copy
from vitascope.runtime.ports import UnfinishedUpload

ALL = ["checkpoints", "frames", "inputs", "latents", "outputs", "records"]


async def _publish(kept: Kept, job: str) -> str:
    subject = work_subject(Stage.DECODE, "default", job)
    work = WorkItem(job=job, tenant="default", attempt=1, stage=Stage.DECODE)
    await kept.bus.publish_work(subject, work.to_event(kept.time.now()))
    return subject


def _count(kind: str) -> float:
    return REGISTRY.get_sample_value("vitascope_janitor_removed_total", {"kind": kind}) or 0.0


async def test_from_the_end_to_oblivion(kept: Kept) -> None:
    """Expired in the record, then without files, announced; at last forgotten, with its copy."""
    job = (await kept.add(State.SUCCEEDED)).record.id
    janitor = kept.make_janitor()
    async with publishing(Publisher(kept.ledger, kept.bus, kept.store, kept.time), janitor):
        await until(lambda: ["inputs", "outputs", "records"] == kept.list_keys(job))
        kept.pass_time(RETENTION.files)
        assert await janitor.run_round()
        await until(lambda: ["records"] == kept.list_keys(job))
        record = await kept.load(job)
        assert (record is not None, State.EXPIRED) == (True, record.state if record else None)
        await until(lambda: any(event.type.endswith("job.expired.v1") for _, event in kept.bus.events))
        kept.pass_time(RETENTION.record)
        assert await janitor.run_round()
        assert (None, []) == (await kept.load(job), kept.list_keys(job))


async def test_a_round_removes_every_kind_and_nothing_else(kept: Kept) -> None:
    """Twice, since an event must be of no use for a while."""
    live, failed = (await kept.add(State.RUNNING)).record, (await kept.add(State.FAILED)).record
    stray, never = queued_record(kept.time.now()), queued_record(kept.time.now())
    await kept.put(*name_files(stray), "models/wan/model.safetensors")
    await put_copy(kept.store, never)
    kept.store.uploads = [UnfinishedUpload(objects.output_key(live, 1), "1", kept.time.now())]
    decoding = (await kept.add(State.DECODING)).record
    useless, useful = await _publish(kept, failed.id), await _publish(kept, decoding.id)
    before = {kind: _count(kind) for kind in ("object", "copy", "upload", "work event")}
    kept.pass_time(7 * HOUR)
    janitor = kept.make_janitor()
    for _ in range(2):
        assert await janitor.run_round()
        kept.pass_time(WORK_AGE)
    assert ([], []) == (kept.list_keys(stray.id), kept.list_keys(never.id))
    assert (ALL, ALL) == (kept.list_keys(live.id), kept.list_keys(decoding.id))
    assert ["checkpoints", "inputs", "latents", "records"] == kept.list_keys(failed.id)
    assert "models/wan/model.safetensors" in kept.store.objects
    assert ([], [useful]) == (kept.store.uploads, list(await kept.bus.list_work()))
    assert useless not in await kept.bus.list_work()
    removed = {kind: _count(kind) - before[kind] for kind in before}
    assert {"object": 7, "copy": 1, "upload": 1, "work event": 1} == removed
    assert kept.time.now().timestamp() - 60 == REGISTRY.get_sample_value(
        "vitascope_janitor_last_success_timestamp_seconds"
    )


async def test_an_event_of_a_moment_is_left_alone(kept: Kept) -> None:
    """Its stage is about to acknowledge it."""
    subject = await _publish(kept, (await kept.add(State.SUCCEEDED)).record.id)
    janitor = kept.make_janitor()
    await janitor.run_round()
    kept.pass_time(WORK_AGE - timedelta(seconds=1))
    await janitor.run_round()
    assert [subject] == list(await kept.bus.list_work())
    kept.pass_time(timedelta(seconds=1))
    await janitor.run_round()
    assert [] == list(await kept.bus.list_work())


async def test_a_lost_ledger_costs_nothing_before_it_is_rebuilt(kept: Kept) -> None:
    """Round after round over an empty ledger; what the rebuild needs is all there, weeks later."""
    jobs = [(await kept.add(state)).record.id for state in (State.QUEUED, State.DECODING, State.SUCCEEDED)]
    kept.pass_time(DAY)
    kept.broker.lose()
    before = {key: value for key, value in kept.store.objects.items() if not key.startswith("state/")}
    janitor = kept.make_janitor()
    for _ in range(3):
        kept.pass_time(10 * DAY)
        assert await janitor.run_round()
    assert before == {key: value for key, value in kept.store.objects.items() if not key.startswith("state/")}
    assert [ALL] * 3 == [kept.list_keys(job) for job in jobs]


async def test_a_ledger_that_is_lost_within_a_round_ends_the_removal(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was judged by the old one is not removed by way of the new one."""
    stray = queued_record(kept.time.now())
    await kept.put(*name_files(stray))
    kept.pass_time(DAY)
    find = OrphanFinder.find_objects

    async def find_and_lose(self: OrphanFinder, epoch: Epoch) -> AsyncIterator[list[Orphan]]:
        async for orphans in find(self, epoch):
            kept.broker.lose()
            yield orphans

    monkeypatch.setattr(OrphanFinder, "find_objects", find_and_lose)
    assert not await kept.make_janitor().run_round()
    assert len(name_files(stray)) == len(kept.list_keys(stray.id))


@pytest.mark.parametrize("part", ["bus", "store"])
async def test_an_outage_changes_nothing(kept: Kept, part: str) -> None:
    """The round says that it could not do it all; the next one does."""
    job, stray = (await kept.add(State.SUCCEEDED)).record.id, queued_record(kept.time.now())
    await kept.put(*name_files(stray))
    kept.pass_time(RETENTION.files)
    kept.broker.set_connected(connected=part != "bus")
    kept.store.is_away = part == "store"
    janitor, before = kept.make_janitor(), dict(kept.store.objects)
    assert not await janitor.run_round()
    kept.broker.set_connected(connected=True)
    kept.store.is_away = False
    record = await kept.load(job)
    assert (before, State.SUCCEEDED) == (kept.store.objects, record.state if record else None)
    assert await janitor.run_round()
    assert [] == kept.list_keys(stray.id)


async def test_a_clock_ahead_expires_nothing(kept: Kept) -> None:
    """The process's clock has jumped by a year; the store's has not."""

    class Ahead:
        def now(self) -> object:
            return kept.time.now() + 365 * DAY

    stamped = await kept.add(State.SUCCEEDED)
    janitor = Janitor(
        kept.ledger, kept.bus, kept.registry, kept.store, clock=Ahead(), holder="here:1", retention=RETENTION  # type: ignore[arg-type]  # a datetime
    )  # fmt: skip
    assert await janitor.run_round()
    assert stamped == await kept.ledger.get(stamped.record.id)
    assert ALL == kept.list_keys(stamped.record.id)


async def test_only_who_holds_the_lease_works(kept: Kept) -> None:
    """Another one is at it; once it is gone for long enough, this one is."""
    await kept.add(State.SUCCEEDED)
    kept.pass_time(RETENTION.files)
    assert await kept.registry.acquire_lease(LEASE_NAME, "other", LEASE_S)
    assert not await kept.make_janitor().run_round()
    assert 1 == len((await kept.make_janitor()._expirer.find_due(kept.time.now())).to_expire)
    kept.pass_time(timedelta(seconds=LEASE_S))
    assert await kept.make_janitor().run_round()
    assert [] == (await kept.make_janitor()._expirer.find_due(kept.time.now())).to_expire


async def test_the_lease_is_given_back_at_the_end(kept: Kept) -> None:
    """The next one need not wait."""
    janitor = kept.make_janitor()
    task = asyncio.create_task(janitor.run())
    await until(lambda: "state/publish/janitor.json" in kept.store.objects)
    assert not await kept.registry.acquire_lease(LEASE_NAME, "other", LEASE_S)
    task.cancel()
    await asyncio.wait({task})
    assert await kept.registry.acquire_lease(LEASE_NAME, "other", LEASE_S)


async def test_the_copy_of_a_live_job_is_restored(kept: Kept) -> None:
    """That of an expired one on its way into oblivion is not."""
    live, expired = (await kept.add(State.RUNNING)).record, (await kept.add(State.EXPIRED)).record
    await kept.store.remove([objects.record_key(live), objects.record_key(expired)])
    await kept.make_janitor().run_round()
    assert objects.record_key(live) in kept.store.objects
    assert objects.record_key(expired) not in kept.store.objects


async def test_consumers_of_groups_that_are_gone(kept: Kept) -> None:
    """After a time of silence, while others are heard of."""
    row = GroupRow(
        pool="default", group="g0", models=(), state=GroupState.IDLE, holder="h", seen=kept.time.now()
    )  # fmt: skip
    for group in ("g0", "g1"):
        async with kept.bus.consume(Stage.DENOISE, "default", group):
            pass
    janitor, look = kept.make_janitor(), timedelta(seconds=15)
    before = _count("consumer")
    for _ in range(int(SILENCE / look) + 1):
        await kept.registry.put_group(row)
        await janitor._look()
        await janitor.run_round()
        kept.pass_time(look)
    assert 1 == _count("consumer") - before
    assert [] == list(await kept.bus.drop_idle_consumers([("default", "g0")])), "only the one of g1 is gone"
    assert ["denoise_default_g0"] == list(await kept.bus.drop_idle_consumers([]))


async def test_consumers_go_however_long_a_round_takes(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody listens for groups within a round, and after a while of that it is not known which are gone."""
    async with kept.bus.consume(Stage.DENOISE, "default", "g0"):
        pass
    find = OrphanFinder.find_objects

    async def find_slowly(self: OrphanFinder, epoch: Epoch) -> AsyncIterator[list[Orphan]]:
        kept.pass_time(2 * GAP)
        async for orphans in find(self, epoch):
            yield orphans

    monkeypatch.setattr(OrphanFinder, "find_objects", find_slowly)
    janitor, look = kept.make_janitor(), timedelta(seconds=15)
    for _ in range(int(SILENCE / look) + 1):
        await janitor._look()
        kept.pass_time(look)
    await janitor.run_round()
    assert [] == list(await kept.bus.drop_idle_consumers([]))


async def test_a_backlog_is_worked_off_in_pages(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within one round."""
    monkeypatch.setattr("vitascope.publish.expirer.PAGE", 2)
    jobs = [(await kept.ledger.create(record_in(State.CANCELLED, kept.time.now()))).record.id for _ in range(5)]
    kept.pass_time(RETENTION.files)
    assert await kept.make_janitor().run_round()
    assert {State.EXPIRED} == {record.state for job in jobs if (record := await kept.load(job))}


@pytest.mark.parametrize(
    ("expected_s", "files"),
    [(JANITOR_EVERY_S, DAY * 7), (180.0, HOUR), (1.0, timedelta(seconds=5))],
    ids=["a week", "an hour", "a trial"],
)
def test_a_short_retention_is_kept_as_well(expected_s: float, files: timedelta) -> None:
    """A file goes at most a twentieth of its time too late."""
    assert expected_s == compute_period_s(Retention(files=files, record=DAY))
