"""The three stages in a world that a test holds: servers in memory, a clock that stands still, engines that count.

The engines run in real threads. A test puts a coroutine at a step or chunk; the engine waits there until the event
loop has run it, so that what it does happens at exactly that point.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from records import ENGINE, NOW, queued_record
from vitascope.adapters.memory import HeldTime, MemoryBroker, MemoryObjectStore
from vitascope.contracts import transitions
from vitascope.contracts.events import WorkItem, make_work_item
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.flow import Stage
from vitascope.contracts.jobs import Engine, JobRecord, ObjectRef, VideoRequest
from vitascope.contracts.pools import GroupRow, GroupState
from vitascope.contracts.subjects import work_subject
from vitascope.decode.handler import DecodeHandler
from vitascope.denoise.denoiser import CheckpointUnfit, OnStep
from vitascope.denoise.group import GroupHeartbeat
from vitascope.denoise.handler import DenoiseHandler
from vitascope.encode.handler import EncodeHandler
from vitascope.encode.screening import Screening
from vitascope.runtime.advance import advance
from vitascope.runtime.ports import Bus, Ledger, Stamped
from vitascope.runtime.settings import DecodeSettings, DenoiseSettings, EncodeSettings
from vitascope.runtime.stage import Pulse, StageHandler

STEPS = 6
PREPARATION = 0
"""The point before the first step, where text is encoded."""
CHUNKS = (1, 4, 4)
TURNS = 50
"""Turns of the event loop in which whatever was set off has happened."""

Act = Callable[[], Awaitable[object]]


async def settled() -> None:
    """Lets everything happen that needs no thread and no clock."""
    for _ in range(TURNS):
        await asyncio.sleep(0)


async def until(is_so: Callable[[], bool]) -> None:
    """Lets the event loop turn until something that a thread brings about is so."""
    while not is_so():  # noqa: ASYNC110 (nobody could set an event for all that tests wait for; the test's own limit ends it)
        await asyncio.sleep(0)


def files_in(folder: Path) -> list[str]:
    """Names of what a folder holds."""
    return sorted(path.name for path in folder.iterdir())


@dataclass
class Points:
    """Coroutines that an engine's thread has the event loop run when it gets to a step or chunk."""

    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    acts: dict[int, Act] = field(default_factory=dict)

    def reach(self, number: int) -> None:
        if act := self.acts.get(number):
            asyncio.run_coroutine_threadsafe(self._run(act), self.loop).result()

    async def _run(self, act: Act) -> None:
        await act()
        await settled()


class CountingDenoiser:
    """Its latents are a number that every step changes; checkpoints hold it."""

    def __init__(self) -> None:
        self.points = Points()
        self.ran: list[int] = []
        self.engine = ENGINE
        self.is_picky = False
        self.references: Sequence[bytes] = ()
        self.fails_at: dict[int, Exception] = {}
        self.is_broken = False

    def describe(self, model: str) -> Engine:
        return self.engine.model_copy(update={"versions": {"model": model}})

    def run(self, request: VideoRequest, references: Sequence[bytes], on_step: OnStep, resume: bytes | None) -> bytes:
        if resume is not None and self.is_picky:
            raise CheckpointUnfit("made by others")
        self.references = references
        saved = json.loads(resume) if resume else {"step": 0, "value": request.seed}
        value, steps = saved["value"], request.num_inference_steps
        self.points.reach(PREPARATION)
        for step in range(saved["step"] + 1, steps + 1):
            self.ran.append(step)
            if error := self.fails_at.pop(step, None):
                raise error
            value = compute_next(value, step)
            self.points.reach(step)
            on_step(step, steps, partial(_save, step, value))
        return json.dumps({"value": value}).encode()

    def prove(self) -> None:
        if self.is_broken:
            raise RuntimeError("the fake device is lost")


def _save(step: int, value: int) -> bytes:
    return json.dumps({"step": step, "value": value}).encode()


def compute_next(value: int, step: int) -> int:
    """What a step makes of the number."""
    return (value * 31 + step) % 200


def compute_latents(seed: int, steps: int = STEPS) -> bytes:
    """The latents of an uninterrupted run."""
    value = seed
    for step in range(1, steps + 1):
        value = compute_next(value, step)
    return json.dumps({"value": value}).encode()


@dataclass(frozen=True)
class Tone:
    samples: NDArray[np.float32]
    sample_rate_hz: int


class CountingDecoder:
    """Frames of one grey each: the latents' number and the frame's."""

    def __init__(self) -> None:
        self.points = Points()
        self.chunks: tuple[int, ...] = CHUNKS
        self.sound: Tone | None = None
        self.tiles: list[int | None] = []
        self.fits_px: int | None = None
        self.runs_out_at = 0
        self.is_broken = False

    def stream(self, model: str, blob: bytes, tile_px: int | None) -> Generator[Tone | NDArray[np.uint8], None, None]:
        assert model == "tiny-wan"
        self.tiles.append(tile_px)
        if self.sound is not None:
            yield self.sound
        first = 0
        for number, frames in enumerate(self.chunks):
            if number == self.runs_out_at and self.fits_px is not None and (tile_px is None or tile_px > self.fits_px):
                raise MemoryError("the fake device is full")
            self.points.reach(number)
            yield make_frames(blob, first, frames)
            first += frames

    def prove(self) -> None:
        if self.is_broken:
            raise RuntimeError("the fake device is lost")


def compute_grey(blob: bytes, frame: int) -> int:
    """The grey of a frame, 20 to 235."""
    value: int = json.loads(blob)["value"]
    return 20 + (value + 7 * frame) % 216


def make_frames(blob: bytes, first: int, count: int) -> NDArray[np.uint8]:
    """Frames of a chunk, uint8 (count, 64, 64, 3)."""
    greys = [compute_grey(blob, frame) for frame in range(first, first + count)]
    return np.repeat(np.array(greys, np.uint8), 64 * 64 * 3).reshape(count, 64, 64, 3)


class GatedStore(MemoryObjectStore):
    """Holds puts of one class back until a gate opens, but for the first few, and counts how many are under way."""

    def __init__(self, prefix: str, *, held_after: int = 0) -> None:
        super().__init__()
        self.prefix, self.free, self.gate = prefix, held_after, asyncio.Event()
        self.under_way = self.most = 0

    async def put(self, key: str, content: bytes | bytearray | memoryview, content_type: str) -> ObjectRef:
        if not key.startswith(self.prefix):
            return await super().put(key, content, content_type)
        if self.free:
            self.free -= 1
            return await super().put(key, content, content_type)
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await self.gate.wait()
            return await super().put(key, content, content_type)
        finally:
            self.under_way -= 1


@dataclass(frozen=True)
class Machine:
    """What a denoise process has to itself."""

    denoiser: CountingDenoiser
    group: GroupHeartbeat
    pool: ThreadPoolExecutor


class Chain:
    """Handlers of all stages on one broker and one store."""

    def __init__(self, pool: ThreadPoolExecutor, scratch: Path, store: MemoryObjectStore | None = None) -> None:
        self.clock = HeldTime()
        self.broker = MemoryBroker(timing=self.clock)
        self.ledger: Ledger = self.broker.ledger
        self.bus: Bus = self.broker.bus
        self.store = store or MemoryObjectStore()
        self.denoiser, self.decoder = CountingDenoiser(), CountingDecoder()
        self.pool, self.scratch = pool, scratch
        self.group = self.make_group()

    def make_group(self, name: str = "g0", size: int = 1) -> GroupHeartbeat:
        """A group that is ready, as a process that has just started would say it."""
        row = GroupRow(
            pool="default",
            group=name,
            size=size,
            models=("tiny-wan",),
            state=GroupState.STARTING,
            holder=name,
            seen=NOW,
        )
        group = GroupHeartbeat(self.broker.registry, self.clock, row)
        group.ready()
        return group

    def denoise(
        self, *, checkpoint_every: int = 2, min_step_s: float = 0.0, grace_s: float = 30.0, on: "Machine | None" = None
    ) -> DenoiseHandler:
        """The handler of a denoise process: of the chain's own machine, or of another."""
        machine = on or Machine(self.denoiser, self.group, self.pool)
        return DenoiseHandler(
            ledger=self.ledger,
            bus=self.bus,
            store=self.store,
            clock=self.clock,
            denoiser=machine.denoiser,
            group=machine.group,
            settings=DenoiseSettings(
                group=machine.group.row.group,
                checkpoint_every=checkpoint_every,
                min_step_s=min_step_s,
                grace_s=grace_s,
            ),
            sampler=machine.pool,
        )

    def machine(self, name: str, pool: ThreadPoolExecutor) -> "Machine":
        """Another group of the same pool."""
        return Machine(CountingDenoiser(), self.make_group(name), pool)

    def decode(self, tile_px: int | None = None) -> DecodeHandler:
        return DecodeHandler(
            ledger=self.ledger,
            bus=self.bus,
            store=self.store,
            clock=self.clock,
            decoder=self.decoder,
            settings=DecodeSettings(tile_px=tile_px),
            thread=self.pool,
        )

    def encode(self, screening: Screening | None = None) -> EncodeHandler:
        return EncodeHandler(
            ledger=self.ledger,
            bus=self.bus,
            store=self.store,
            clock=self.clock,
            settings=EncodeSettings(scratch=self.scratch, preset="ultrafast"),
            screening=screening,
        )

    async def start(self, **changes: Any) -> WorkItem:
        """A new job, dispatched to the group; gives its denoise work."""
        wishes: dict[str, Any] = {"num_inference_steps": STEPS, "num_frames": sum(CHUNKS)} | changes
        record = queued_record(**wishes)
        await self.ledger.create(record)
        return await self.dispatch(record.id)

    async def dispatch(self, job: str, group: str = "g0") -> WorkItem:
        """Queued to running, with a new attempt."""
        stamped = await advance(self.ledger, job, lambda record: transitions.start(record, group, NOW))
        return make_work_item(stamped.record, Stage.DENOISE)

    def lose_answer(self, monkeypatch: pytest.MonkeyPatch, is_it: Callable[[JobRecord], bool]) -> list[JobRecord]:
        """The ledger takes the first record of that kind and the answer is lost; what was taken so."""
        replace, lost = self.ledger.replace, list[JobRecord]()

        async def replace_and_lose(current: Stamped, changed: JobRecord) -> Stamped:
            stamped = await replace(current, changed)
            if is_it(changed) and not lost:
                lost.append(changed)
                raise VitascopeError(FailureCode.BUS_UNAVAILABLE)
            return stamped

        monkeypatch.setattr(self.ledger, "replace", replace_and_lose)
        return lost

    async def requeue(self, job: str) -> None:
        """What the scheduler does first when a group is silent: back to the queue."""
        attempt = (await self.record(job)).run.attempt
        await advance(self.ledger, job, lambda record: transitions.requeue(record, attempt, "the group is lost"))

    async def lose_group(self, job: str) -> None:
        """What the scheduler does when a group is silent: back to the queue, and out again as another attempt."""
        await self.requeue(job)
        await self.dispatch(job)

    async def cancel(self, job: str) -> None:
        await advance(self.ledger, job, lambda record: transitions.cancel(record, NOW))

    async def preempt(self, job: str) -> None:
        await advance(self.ledger, job, transitions.request_preempt)

    async def record(self, job: str) -> JobRecord:
        stamped = await self.ledger.get(job)
        assert stamped is not None
        return stamped.record

    async def work_for(self, job: str, stage: Stage) -> WorkItem:
        return make_work_item(await self.record(job), stage)

    async def has_work(self, job: str, stage: Stage) -> bool:
        return await self.bus.has_work(work_subject(stage, "default", job))

    async def run(self, handler: StageHandler, job: str) -> None:
        """Let a handler work on the job's present attempt."""
        await handler.handle(await self.work_for(job, handler.stage), Pulse())

    async def run_to(self, stage: Stage, **changes: Any) -> str:
        """A job that waits for `stage`."""
        work = await self.start(**changes)
        for handler in (self.denoise(), self.decode()):
            if handler.stage is not stage:
                await self.run(handler, work.job)
            else:
                break
        return work.job

    def objects(self) -> dict[str, bytes]:
        """What is in the store, but for the copies of records and what is noted of their state."""
        return {
            key: content for key, content in self.store.objects.items() if not key.startswith(("records/", "state/"))
        }

    def keys(self, prefix: str = "") -> list[str]:
        """Keys of `objects`, tenant and job left out."""
        parts = [key.split("/") for key in self.objects()]
        keys = ["/".join((kind, *rest)) for kind, _tenant, _job, *rest in parts]
        return sorted(key for key in keys if key.startswith(prefix))


@asynccontextmanager
async def progress_of(chain: Chain, subject: str) -> AsyncIterator[list[bytes]]:
    """Collects what is published under a progress subject."""
    seen: list[bytes] = []

    async def listen() -> None:
        async with chain.bus.watch_progress(subject) as messages:
            async for message in messages:
                seen.append(message)  # noqa: PERF401 (it never ends by itself, and is read meanwhile)

    listening = asyncio.create_task(listen(), name="listener of a test")
    try:
        await settled()
        yield seen
        await settled()
    finally:
        listening.cancel()
        await asyncio.wait({listening})
