"""Dispatchers on a ledger, a bus, a registry and a store in memory, with a clock that a test holds."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from records import queued_record
from vitascope.adapters.memory import HeldTime, MemoryBroker, MemoryObjectStore
from vitascope.contracts.flow import Stage
from vitascope.contracts.jobs import JobRecord
from vitascope.contracts.pools import GroupRow, GroupState
from vitascope.contracts.subjects import work_subject
from vitascope_operator.scheduling.dispatcher import Dispatcher

TURNS = 300
"""Turns of the event loop in which whatever is going to happen without the clock has happened."""


class World:
    """A broker, a clock, and as many dispatchers as a test starts."""

    def __init__(self) -> None:
        self.time = HeldTime()
        self.broker = MemoryBroker(timing=self.time)
        self.store = MemoryObjectStore(clock=self.time)

    async def add_group(self, group: str = "g0", state: GroupState = GroupState.IDLE, holder: str = "h") -> None:
        await self.broker.registry.put_group(self._row(group, state, holder))
        await self.settle()

    async def remove_group(self, group: str = "g0") -> None:
        await self.broker.registry.remove_group(self._row(group, GroupState.DRAINING, "h"))
        await self.settle()

    def _row(self, group: str, state: GroupState, holder: str) -> GroupRow:
        return GroupRow(
            pool="default", group=group, models=("tiny-wan",), state=state, holder=holder, seen=self.time.now()
        )

    async def add_job(self, **run: object) -> JobRecord:
        record = queued_record(self.time.now())
        record = record.model_copy(update={"run": record.run.model_copy(update=run)})
        await self.broker.ledger.create(record)
        await self.settle()
        return record

    async def get(self, job: JobRecord) -> JobRecord:
        stamped = await self.broker.ledger.get(job.id)
        assert stamped is not None
        return stamped.record

    async def has_work(self, job: JobRecord, group: str = "g0") -> bool:
        return await self.broker.bus.has_work(work_subject(Stage.DENOISE, "default", job.id, group))

    async def settle(self, done: Callable[[], bool] = lambda: False) -> None:
        for _ in range(TURNS):
            if done():
                return
            await asyncio.sleep(0)

    @asynccontextmanager
    async def dispatching(self, holder: str = "one") -> AsyncIterator[asyncio.Task[None]]:
        ports = self.broker.ledger, self.broker.bus, self.broker.registry, self.time
        dispatcher = Dispatcher(*ports, store=self.store, holder=holder, lease_s=4.0, group_lease_s=15.0)
        task = asyncio.create_task(dispatcher.run(), name=f"dispatcher {holder}")
        await self.settle()
        try:
            yield task
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
