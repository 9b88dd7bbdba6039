"""A copy is never older than the ledger for long, and does not come back once its record is forgotten."""

import pytest

from records import NOW, queued_record, record_in
from vitascope.adapters.memory import MemoryBroker, MemoryObjectStore
from vitascope.contracts import transitions
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.flow import State
from vitascope.contracts.jobs import JobRecord
from vitascope.contracts.objects import record_key
from vitascope.runtime import copies
from vitascope.runtime.copies import compute_mark, keep_copy
from vitascope.runtime.ports import Stamped


class World:
    """A ledger and a store; `after_put` is what others do right after each write of a copy."""

    def __init__(self) -> None:
        self.broker, self.store = MemoryBroker(), MemoryObjectStore()

    async def keep(self, record: JobRecord) -> None:
        await keep_copy(self.broker.ledger, self.store, record)

    def read(self, record: JobRecord) -> JobRecord:
        return JobRecord.from_bytes(self.store.objects[record_key(record)])

    async def move(self, stamped: Stamped, record: JobRecord) -> Stamped:
        return await self.broker.ledger.replace(stamped, record)


@pytest.fixture
def world() -> World:
    return World()


async def test_the_newest_record_stays(world: World) -> None:
    """Whoever writes an older one finds out and writes again."""
    old = await world.broker.ledger.create(queued_record())
    new = await world.move(old, transitions.start(old.record, "g0", NOW))
    await world.keep(new.record)
    await world.keep(old.record)
    assert new.record == world.read(old.record)


async def test_a_record_that_changes_all_the_time_is_an_error(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tries have an end; the caller comes back."""
    monkeypatch.setattr(copies, "KEEP_TRIES", 3)
    stamped = await world.broker.ledger.create(queued_record())
    real = world.store.put

    async def put(key: str, content: bytes, content_type: str) -> object:
        nonlocal stamped
        answer = await real(key, content, content_type)
        back = stamped.record.run.attempt
        changed = (
            transitions.start(stamped.record, "g0", NOW)
            if stamped.record.state is State.QUEUED
            else transitions.requeue(stamped.record, back, "again")
        )
        stamped = await world.move(stamped, changed)
        return answer

    monkeypatch.setattr(world.store, "put", put)
    with pytest.raises(VitascopeError) as raised:
        await world.keep(stamped.record)
    assert FailureCode.SERVICE_UNAVAILABLE is raised.value.code


async def test_the_copy_of_a_forgotten_record_goes_again(world: World) -> None:
    """The janitor took the copy and then the record; a writer that was slow must not bring the copy back."""
    stamped = await world.broker.ledger.create(record_in(State.EXPIRED))
    await world.broker.ledger.forget(stamped)
    await world.keep(stamped.record)
    assert {} == world.store.objects


@pytest.mark.parametrize(
    "state", [state for state in State if state not in {State.EXPIRED, State.REFUSED, State.WITHHELD}]
)
async def test_the_copy_of_a_lost_record_stays(world: World, state: State) -> None:
    """A ledger that has no such job may be one that is still to be rebuilt, from this very copy."""
    record = record_in(state)
    await world.keep(record)
    assert record == world.read(record)


def test_what_a_copy_must_have_right() -> None:
    """State, attempt, checkpoint and latents."""
    running = record_in(State.RUNNING)
    assert compute_mark(running) != compute_mark(transitions.requeue(running, running.run.attempt, "lost"))
    assert compute_mark(running) == compute_mark(transitions.request_preempt(running))
    decoding = record_in(State.DECODING)
    assert decoding.run.latents is not None
    assert compute_mark(decoding)[3] == decoding.run.latents.key
