"""The look at a running service: what the janitor would remove, and jobs that stand still."""

from datetime import timedelta

import pytest

from records import queued_record
from unit.publish.kept import HOUR, Kept, name_files
from vitascope.contracts import objects
from vitascope.contracts.events import WorkItem
from vitascope.contracts.failures import VitascopeError
from vitascope.contracts.flow import Stage, State
from vitascope.contracts.subjects import work_subject
from vitascope.publish.survey import NAMED, Findings, Survey, survey
from vitascope.runtime.copies import put_copy
from vitascope.runtime.ports import UnfinishedUpload


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vitascope.publish.survey.PAUSE_S", 0.0)


async def _look(kept: Kept) -> Survey:
    return await survey(kept.ledger, kept.bus, kept.store, kept.time)


async def _publish(kept: Kept, job: str, stage: Stage, group: str | None = None) -> str:
    subject = work_subject(stage, "default", job, group)
    work = WorkItem(job=job, tenant="default", attempt=1, stage=stage)
    await kept.bus.publish_work(subject, work.to_event(kept.time.now()))
    return subject


async def test_a_service_in_order(kept: Kept) -> None:
    """Jobs that wait need no event, those under way have theirs, and ended ones have nothing left over."""
    for state, stage, group in (
        (State.RUNNING, Stage.DENOISE, "g0"),
        (State.DECODING, Stage.DECODE, None),
        (State.ENCODING, Stage.ENCODE, None),
    ):
        await _publish(kept, (await kept.add(state)).record.id, stage, group)
    await kept.add(State.QUEUED)
    kept.pass_time(HOUR)
    found = await _look(kept)
    assert [0] * 4 == [findings.count for findings in found.orphans]
    assert (0, True) == (found.stalled.count, found.is_complete)


async def test_everything_that_lies_about(kept: Kept) -> None:
    """With its size and names, and without a change."""
    stray, never, now = queued_record(kept.time.now()), queued_record(kept.time.now()), kept.time.now()
    await kept.put(*name_files(stray))
    await put_copy(kept.store, never)
    kept.store.uploads = [UnfinishedUpload(objects.output_key(stray, 1), "1", now)]
    useless = await _publish(kept, stray.id, Stage.DECODE)
    stalled = (await kept.add(State.DECODING)).record
    kept.pass_time(timedelta(hours=7))
    before, size = dict(kept.store.objects), len(kept.store.objects[objects.record_key(never)])
    found = await _look(kept)
    assert (
        Findings(kind="object", count=5, bytes=15, names=tuple(name_files(stray))),
        Findings(kind="copy", count=1, bytes=size, names=(objects.record_key(never),)),
        Findings(kind="upload", count=1, names=(objects.output_key(stray, 1),)),
        Findings(kind="work event", count=1, names=(useless,)),
    ) == found.orphans
    assert (work_subject(Stage.DECODE, "default", stalled.id),) == found.stalled.names
    assert (before, 1, [useless]) == (kept.store.objects, len(kept.store.uploads), list(await kept.bus.list_work()))


async def test_a_ledger_that_is_being_rebuilt_is_told(kept: Kept) -> None:
    """And nothing of before is called an orphan."""
    await kept.add(State.SUCCEEDED)
    kept.broker.lose()
    kept.pass_time(HOUR)
    found = await _look(kept)
    assert (False, [0] * 4) == (found.is_complete, [findings.count for findings in found.orphans])


def test_only_the_first_are_named() -> None:
    """Of many."""
    findings = Findings(kind="object")
    for number in range(NAMED + 2):
        findings = findings.plus(str(number), 2)
    expected = (NAMED + 2, 2 * NAMED + 4, tuple(str(n) for n in range(NAMED)))
    assert expected == (findings.count, findings.bytes, findings.names)


async def test_an_outage_is_an_error(kept: Kept) -> None:
    """Not an empty list."""
    kept.store.is_away = True
    with pytest.raises(VitascopeError):
        await _look(kept)
