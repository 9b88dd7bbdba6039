"""The read models of groups and of progress: bounded, and right after outages."""

import asyncio
from typing import Any

import pytest

from doors import World, until
from records import NOW, queued_record
from vitascope.contracts.events import FramesReady, Progress
from vitascope.contracts.flow import Stage
from vitascope.contracts.pools import GroupState
from vitascope.contracts.subjects import frames_subject, progress_subject
from vitascope.ingress.groups import GroupIndex
from vitascope.ingress.progress import ProgressIndex

JOB = queued_record().id


def _progress(job: str = JOB, **changes: Any) -> Progress:
    return Progress(**{"job": job, "attempt": 1, "stage": "denoise", "step": 1, "steps": 9, "time": NOW} | changes)


def test_progress_is_kept_by_stage_and_newest_attempt() -> None:
    """Decode and encode of one job run side by side; an attempt that is over says nothing."""
    index = ProgressIndex()
    for shown in (_progress(stage="decode"), _progress(stage="encode", step=2), _progress(stage="decode", attempt=2)):
        index.apply(shown)
    index.apply(_progress(stage="decode", step=8))
    assert (None, 1, 2) == (
        index.find(JOB, 1, Stage.DECODE),
        getattr(index.find(JOB, 2, Stage.DECODE), "step", None),
        getattr(index.find(JOB, 1, Stage.ENCODE), "step", None),
    )


def test_jobs_that_were_silent_longest_are_forgotten() -> None:
    """The index is bounded."""
    index = ProgressIndex(max_jobs=2)
    first, second, third = (queued_record().id for _ in range(3))
    for job in (first, second, first, third):
        index.apply(_progress(job))
    kept = [index.find(job, 1, Stage.DENOISE) is not None for job in (first, second, third)]
    assert [True, False, True] == kept


async def test_progress_of_all_jobs_comes_over_one_subscription(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after an outage; what decode tells encode on the same stream is not taken for it."""
    monkeypatch.setattr("vitascope.ingress.progress.RETRY_S", 0.0)
    index, bus = ProgressIndex(), world.broker.bus
    world.broker.set_connected(connected=False)
    following = asyncio.create_task(index.run(bus))
    await asyncio.sleep(0)
    world.broker.set_connected(connected=True)
    frames = FramesReady(job=JOB, attempt=1, chunks=1, frames=5)
    await bus.publish_progress(frames_subject("default", JOB, 1), frames)
    await bus.publish_progress(progress_subject("default", JOB), _progress(step=4))
    await until(lambda: index.find(JOB, 1, Stage.DENOISE))
    following.cancel()
    await asyncio.wait({following})
    assert following.cancelled()


async def test_groups_come_and_go(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Followed through an outage; a row that is taken away is gone at once."""
    monkeypatch.setattr("vitascope.ingress.groups.RETRY_S", 0.0)
    index = GroupIndex(world.time)
    world.broker.set_connected(connected=False)
    following = asyncio.create_task(index.run(world.broker.registry))
    await asyncio.sleep(0)
    world.broker.set_connected(connected=True)
    await world.keep_rows("default", "decode-default")
    await until(lambda: len(index.list_alive()) == 2)
    assert ["default"] == [row.pool for row in index.list_working(Stage.DENOISE, "default")]
    assert ["decode-default"] == [row.pool for row in index.list_working(Stage.DECODE, "default")]
    await world.keep_rows("default", state=GroupState.DRAINING)
    await until(lambda: not index.list_working(Stage.DENOISE, "default"))
    (row,) = [row for row in index.list_alive() if row.pool == "default"]
    await world.broker.registry.remove_group(row)
    await until(lambda: len(index.list_alive()) == 1)
    following.cancel()
    await asyncio.wait({following})
