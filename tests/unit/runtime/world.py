"""A stage loop in a world that a test holds: a broker in memory, a clock that stands still, a handler on a script."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from records import NOW, record_in
from vitascope.adapters.memory import HeldTime, MemoryBroker
from vitascope.contracts import subjects, transitions
from vitascope.contracts.events import CloudEvent, WorkItem, make_work_item
from vitascope.contracts.flow import Stage, State
from vitascope.contracts.jobs import JobRecord
from vitascope.runtime.advance import advance
from vitascope.runtime.ports import Bus, Delivery, Ledger
from vitascope.runtime.stage import Pulse
from vitascope.runtime.stage_loop import StageLoop

Script = Callable[[WorkItem, Pulse], Awaitable[None]]
Proof = Callable[[], Awaitable[None]]
TURNS = 200
"""Turns of the event loop in which whatever is going to happen without the clock has happened."""
START_STATES = {Stage.DENOISE: State.RUNNING, Stage.DECODE: State.DECODING, Stage.ENCODE: State.ENCODING}


class ScriptedHandler:
    """Does what the test says; the last part of the script repeats."""

    def __init__(self, stage: Stage, *script: Script) -> None:
        self.stage = stage
        self.script = list(script)
        self.seen: list[WorkItem] = []
        self.told_to_drain = asyncio.Event()
        self.proofs: list[Proof] = []

    async def handle(self, work: WorkItem, pulse: Pulse) -> None:
        part = self.script[min(len(self.seen), len(self.script) - 1)]
        self.seen.append(work)
        await part(work, pulse)

    async def drain(self) -> None:
        self.told_to_drain.set()

    async def prove(self) -> None:
        await self.proofs.pop(0)()


class World:
    """One job at the start of a stage, its event on the bus, and a loop that is not yet running."""

    def __init__(self, stage: Stage, *script: Script, record: JobRecord | None = None) -> None:
        self.time = HeldTime()
        self.broker = MemoryBroker(timing=self.time)
        self.bus: Bus = self.broker.bus
        self.ledger: Ledger = self.broker.ledger
        self.stage, self.group = stage, "g0" if stage is Stage.DENOISE else None
        self.handler = ScriptedHandler(stage, *script)
        self.started = record or record_in(START_STATES[stage])

    @property
    def event(self) -> CloudEvent:
        return make_work_item(self.started, self.stage).to_event(NOW)

    def subject(self, stage: Stage | None = None) -> str:
        stage = stage or self.stage
        return subjects.work_subject(stage, "default", self.started.id, "g0" if stage is Stage.DENOISE else None)

    @asynccontextmanager
    async def working(self, event: CloudEvent | None = None, limit: int = 1) -> AsyncIterator[StageLoop]:
        """Publishes the job's event (or another) and runs the loop; at the end the loop is cancelled."""
        if await self.ledger.get(self.started.id) is None:
            await self.ledger.create(self.started)
        await self.bus.publish_work(self.subject(), event or self.event)
        loop = self.make_loop(limit)
        running = asyncio.create_task(loop.run(), name="loop under test")
        try:
            yield loop
            await settled()
            if running.done():
                running.result()
        finally:
            running.cancel()
            await asyncio.wait({running})

    def make_loop(self, limit: int = 1) -> StageLoop:
        return StageLoop(
            self.handler,
            self.bus,
            self.ledger,
            clock=self.time,
            pool="default",
            group=self.group,
            limit=limit,
        )

    async def pass_time(self, seconds: float) -> None:
        await settled()
        self.time.advance(seconds)
        await settled()

    async def record(self) -> JobRecord:
        current = await self.broker.ledger.get(self.started.id)
        assert current is not None
        return current.record

    async def has_work(self, stage: Stage | None = None) -> bool:
        return await self.broker.bus.has_work(self.subject(stage))

    async def finish_stage(self) -> JobRecord:
        """Moves the record on as the stage's success does, and publishes nothing."""

        def finish(record: JobRecord) -> JobRecord:
            moved = record_in(State.DECODING if self.stage is Stage.DENOISE else State.ENCODING)
            if self.stage is Stage.DENOISE:
                assert moved.run.latents is not None
                assert moved.result.engine is not None
                made = {"latents": moved.run.latents, "engine": moved.result.engine}
                return transitions.finish_denoise(record, record.run.attempt, **made, gpu_s=1.0, stage_s=1.0, now=NOW)
            return transitions.finish_decode(record, record.run.attempt, chunks=5, stage_s=1.0, now=NOW)

        return (await advance(self.broker.ledger, self.started.id, finish)).record

    async def cancel_job(self) -> None:
        await advance(self.broker.ledger, self.started.id, lambda record: transitions.cancel(record, NOW))


async def settled() -> None:
    """Everything that needs no clock has happened."""
    for _ in range(TURNS):
        await asyncio.sleep(0)


async def taken(deliveries: AsyncIterator[Delivery]) -> Delivery:
    """The next delivery, which must be there already."""
    async with asyncio.timeout(10):
        return await anext(deliveries)


def raising(error: BaseException) -> Script:
    async def script(_work: WorkItem, _pulse: Pulse) -> None:
        raise error

    return script


async def succeeding(_work: WorkItem, _pulse: Pulse) -> None:
    """Returns, as a handler that has done everything does."""


async def waiting(_work: WorkItem, _pulse: Pulse) -> None:
    """Works until it is cancelled."""
    await asyncio.Event().wait()
