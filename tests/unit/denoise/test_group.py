"""The group's row: there from the start, new at once, gone at the end, and no reason to stop working."""

from collections.abc import Callable, Sequence

import pytest

from records import NOW
from unit.denoise.chain import settled
from vitascope.adapters.memory import HeldTime, MemoryBroker
from vitascope.contracts.pools import GroupRow, GroupState
from vitascope.denoise.group import GroupHeartbeat
from vitascope.runtime import presence

JOB = "vj_01KDYAK348Q7S3J9GJD8KET22G"
OTHER = "vj_01KDYAK348EXJDDWZZQTNAEKES"


class Rows:
    """A broker with one group's heartbeat on it."""

    def __init__(self) -> None:
        self.clock = HeldTime()
        self.broker = MemoryBroker(timing=self.clock)
        row = GroupRow(
            pool="default", group="g0", size=2, models=("tiny-wan",), state=GroupState.STARTING, holder="h", seen=NOW
        )
        self.heartbeat = GroupHeartbeat(self.broker.registry, self.clock, row)

    async def said(self) -> Sequence[GroupRow]:
        await settled()
        return await self.broker.registry.get_groups()


async def test_row_lives_as_long_as_the_block() -> None:
    """The row is there from the start of the block to its end."""
    rows = Rows()
    async with rows.heartbeat.beating():
        assert [GroupState.STARTING] == [row.state for row in await rows.said()]
    assert list(await rows.said()) == []


async def test_changes_are_said_at_once() -> None:
    """Each change is in the registry without any time having passed."""
    rows = Rows()
    heartbeat = rows.heartbeat
    async with heartbeat.beating():
        heartbeat.ready()
        assert [(GroupState.IDLE, None)] == [(row.state, row.job) for row in await rows.said()]
        heartbeat.begin(JOB, 3)
        heartbeat.note_step("small", 0.5)
        assert [(GroupState.BUSY, JOB, 3)] == [(row.state, row.job, row.attempt) for row in await rows.said()]
        heartbeat.end()
        assert [(GroupState.IDLE, None, {"small": 0.5})] == [
            (row.state, row.job, row.step_s) for row in await rows.said()
        ]


async def test_one_job_that_is_handed_on_leaves_room() -> None:
    """Idle beside one finishing job, busy beside two, and never a job that has been handed on."""
    rows = Rows()
    heartbeat = rows.heartbeat
    seen: list[tuple[GroupState, str | None, tuple[str, ...]]] = []
    acts: tuple[Callable[[], None], ...] = (
        lambda: heartbeat.begin(JOB, 1),
        lambda: heartbeat.end(handing_on=JOB),
        lambda: heartbeat.begin(OTHER, 1),
        lambda: heartbeat.end(handing_on=OTHER),
        lambda: heartbeat.handed_on(JOB),
        lambda: heartbeat.handed_on(JOB),
        lambda: heartbeat.handed_on(OTHER),
    )
    async with heartbeat.beating():
        for act in acts:
            act()
            seen += [(row.state, row.job, row.finishing) for row in await rows.said()]
    assert seen == [
        (GroupState.BUSY, JOB, ()),
        (GroupState.IDLE, None, (JOB,)),
        (GroupState.BUSY, OTHER, (JOB,)),
        (GroupState.BUSY, None, (JOB, OTHER)),
        (GroupState.IDLE, None, (OTHER,)),
        (GroupState.IDLE, None, (OTHER,)),
        (GroupState.IDLE, None, ()),
    ]


async def test_job_is_handed_on_beside_a_running_one() -> None:
    """The running job stays in the row."""
    heartbeat = Rows().heartbeat
    heartbeat.begin(JOB, 1)
    heartbeat.end(handing_on=JOB)
    heartbeat.begin(OTHER, 4)
    heartbeat.handed_on(JOB)
    assert (GroupState.BUSY, OTHER, 4) == (heartbeat.row.state, heartbeat.row.job, heartbeat.row.attempt)


async def test_draining_lasts() -> None:
    """A draining group that ends its job is not taken for idle."""
    rows = Rows()
    heartbeat = rows.heartbeat
    async with heartbeat.beating():
        heartbeat.begin(JOB, 1)
        heartbeat.drain()
        heartbeat.end()
        assert [(GroupState.DRAINING, None)] == [(row.state, row.job) for row in await rows.said()]


async def test_row_is_renewed_without_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """`seen` follows the clock."""
    monkeypatch.setattr(presence, "HEARTBEAT_S", 0.0)
    rows = Rows()
    async with rows.heartbeat.beating():
        await rows.said()
        rows.clock.advance(5)
        (row,) = await rows.said()
        assert rows.clock.now() == row.seen


async def test_unreachable_registry_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest row is said as soon as the registry is back; an end without it ends all the same."""
    monkeypatch.setattr(presence, "HEARTBEAT_S", 0.0)
    rows = Rows()
    async with rows.heartbeat.beating():
        await rows.said()
        rows.broker.set_connected(connected=False)
        rows.heartbeat.begin(JOB, 1)
        await settled()
        rows.broker.set_connected(connected=True)
        assert [JOB] == [row.job for row in await rows.said()]
        rows.broker.set_connected(connected=False)
