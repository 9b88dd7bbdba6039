"""Failing stages on a real NATS server: tries, pauses, dead letters, and what is left of a poison event."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
from numpy.typing import NDArray

from contract.waiting import until
from records import NOW, queued_record, record_in
from servers import RunningNats
from vitascope.adapters.jetstream import Connection, JetStreamBus, JetStreamLedger, ensure
from vitascope.adapters.jetstream.api import get_last, store
from vitascope.adapters.memory import MemoryObjectStore
from vitascope.contracts import transitions
from vitascope.contracts.events import WorkItem, make_work_item
from vitascope.contracts.failures import FailureCode
from vitascope.contracts.flow import Stage, State
from vitascope.contracts.ids import make_job_id
from vitascope.contracts.jobs import Engine, JobRecord
from vitascope.contracts.objects import latents_key
from vitascope.contracts.subjects import STREAM_DEAD, dead_subject, work_subject
from vitascope.decode.handler import DecodeHandler
from vitascope.runtime import outcome
from vitascope.runtime.outcome import MAX_FAILURES
from vitascope.runtime.ports import SystemClock
from vitascope.runtime.settings import DecodeSettings
from vitascope.runtime.stage_loop import StageLoop

BACKOFF_S = (0.3, 0.6)
SOON_S = 20.0
ENGINE = Engine(fingerprint="f" * 64, dtype="float32", device="cpu", sampler="UniPC")


@dataclass
class FailingDecoder:
    """Fails so often, and then gives the promised frames."""

    fails: int
    tried_s: list[float] = field(default_factory=list)

    def stream(self, *_how: object) -> Generator[NDArray[np.uint8], None, None]:
        self.tried_s.append(time.monotonic())
        if len(self.tried_s) <= self.fails:
            raise RuntimeError("/srv/models is gone")
        yield np.zeros((1, 64, 64, 3), np.uint8)

    def prove(self) -> None:
        """Nothing asks for it here."""


@dataclass
class Place:
    """A pool of its own on the session's server, with a decode process in it."""

    connection: Connection
    decoder: FailingDecoder
    pool: str = field(default_factory=lambda: f"t-{uuid4().hex[:12]}")
    objects: MemoryObjectStore = field(default_factory=MemoryObjectStore)

    def __post_init__(self) -> None:
        self.bus, self.ledger = JetStreamBus(self.connection), JetStreamLedger(self.connection)

    async def add_job(self) -> JobRecord:
        """A job that has been denoised, its decode event published."""
        record = queued_record(num_frames=1)
        record = record.model_copy(update={"admission": record.admission.model_copy(update={"pool": self.pool})})
        latents = await self.objects.put(latents_key(record, 1), b"latents", "x")
        record = transitions.finish_denoise(
            transitions.start(record, "g0", NOW), 1, latents=latents, engine=ENGINE, gpu_s=1.0, stage_s=1.0, now=NOW
        )
        await self.ledger.create(record)
        await self.bus.publish_work(self.subject(record.id), make_work_item(record, Stage.DECODE).to_event(NOW))
        return record

    def subject(self, job: str, stage: Stage = Stage.DECODE) -> str:
        return work_subject(stage, self.pool, job, "g0" if stage is Stage.DENOISE else None)

    async def get(self, job: JobRecord) -> JobRecord:
        current = await self.ledger.get(job.id)
        assert current is not None
        return current.record

    async def dead_letter(self, job: str) -> dict[str, Any] | None:
        found = await get_last(self.connection, STREAM_DEAD, dead_subject(Stage.DECODE, job))
        if found is None:
            return None
        letter: dict[str, Any] = json.loads(found.payload)
        return letter

    @asynccontextmanager
    async def decoding(self) -> AsyncIterator[None]:
        with ThreadPoolExecutor(1) as thread:
            handler = DecodeHandler(
                ledger=self.ledger,
                bus=self.bus,
                store=self.objects,
                clock=SystemClock(),
                decoder=self.decoder,
                settings=DecodeSettings(),
                thread=thread,
            )
            loop = StageLoop(handler, self.bus, self.ledger, clock=SystemClock(), pool=self.pool)
            running = asyncio.create_task(loop.run(), name="decode loop")
            try:
                yield
                assert not running.done()
            finally:
                running.cancel()
                await asyncio.wait({running})


@pytest.fixture
async def connection(nats_server: RunningNats) -> AsyncIterator[Connection]:
    async with Connection(nats_server.url) as made:
        await ensure(made)
        yield made


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcome, "BACKOFF_S", BACKOFF_S)


async def test_decode_that_always_fails_is_tried_three_times(connection: Connection) -> None:
    """With pauses between; then one dead letter tells all, the job has failed, and denoise is not asked for again."""
    place = Place(connection, FailingDecoder(fails=100))
    job = await place.add_job()

    async def is_over() -> bool:
        return (await place.get(job)).is_terminal and not await place.bus.has_work(place.subject(job.id))

    async with place.decoding():
        await until(is_over, SOON_S)
        await asyncio.sleep(sum(BACKOFF_S))  # a fourth try would come within this
    tried_s = place.decoder.tried_s
    assert MAX_FAILURES == len(tried_s)
    pauses_s = [later - sooner for sooner, later in pairwise(tried_s)]
    assert all(least_s <= pause_s for least_s, pause_s in zip(BACKOFF_S, pauses_s, strict=True))
    record = await place.get(job)
    assert record.run.failure is not None
    assert (State.FAILED, 1) == (record.state, record.run.attempt)
    assert (FailureCode.DECODE_FAILED, "decode") == (record.run.failure.code, record.run.failure.stage)
    assert "/srv/models" not in record.run.failure.message
    assert {
        "event": make_work_item(job, Stage.DECODE).to_event(NOW).model_dump(mode="json"),
        "error": record.run.failure.model_dump(mode="json"),
        "attempts": MAX_FAILURES,
    } == await place.dead_letter(job.id)
    assert not await place.bus.has_work(place.subject(job.id, Stage.DENOISE))
    assert not await place.bus.has_work(place.subject(job.id, Stage.ENCODE))


async def test_decode_that_fails_once_costs_nothing_but_time(connection: Connection) -> None:
    """The second try decodes from the kept latents; encode is asked for, and no letter is written."""
    place = Place(connection, FailingDecoder(fails=1))
    job = await place.add_job()

    async def is_handed_on() -> bool:
        return await place.bus.has_work(place.subject(job.id, Stage.ENCODE)) and not await place.bus.has_work(
            place.subject(job.id)
        )

    async with place.decoding():
        await until(is_handed_on, SOON_S)
    record = await place.get(job)
    assert (State.ENCODING, 0, 1) == (record.state, record.run.failures, record.run.attempt)
    assert 2 == len(place.decoder.tried_s)
    assert await place.dead_letter(job.id) is None


def _bad_json(_job: JobRecord, headers: dict[str, str]) -> tuple[dict[str, str], bytes]:
    return headers, b"{not json"


def _no_event(_job: JobRecord, _headers: dict[str, str]) -> tuple[dict[str, str], bytes]:
    return {}, b"{}"


def _wrong_stage(job: JobRecord, headers: dict[str, str]) -> tuple[dict[str, str], bytes]:
    return headers, make_work_item(job, Stage.ENCODE).model_dump_json().encode()


def _half(job: JobRecord, headers: dict[str, str]) -> tuple[dict[str, str], bytes]:
    return headers, json.dumps({"job": job.id}).encode()


@pytest.mark.parametrize("spoil", [_bad_json, _no_event, _wrong_stage, _half], ids=lambda spoil: spoil.__name__)
async def test_poison_event_is_put_away(
    connection: Connection, spoil: Callable[[JobRecord, dict[str, str]], tuple[dict[str, str], bytes]]
) -> None:
    """It leaves the queue for a dead letter at once, the job is as it was, and the work behind it is done."""
    place = Place(connection, FailingDecoder(fails=0))
    record = record_in(State.DECODING)
    poisoned = make_job_id(NOW)
    headers, body = spoil(record, {"ce-specversion": "1.0", "ce-id": poisoned, "ce-source": "/x", "ce-type": "x"})
    headers |= {"ce-subject": poisoned} if headers else {}
    await store(connection, place.subject(poisoned), body, headers)
    job = await place.add_job()

    async def is_put_away() -> bool:
        letter = await place.dead_letter(poisoned)
        return letter is not None and not await place.bus.has_work(place.subject(poisoned))

    async def is_done() -> bool:
        return (await place.get(job)).state is State.ENCODING

    async with place.decoding():
        await until(is_put_away, SOON_S)
        await until(is_done, SOON_S)


async def test_event_of_a_job_that_is_not_there_is_put_away(connection: Connection) -> None:
    """There is nothing to work for: the queue is rid of the event, and people get it."""
    place = Place(connection, FailingDecoder(fails=0))
    # Made under this ledger for certain: another might be of a ledger that was lost, and would be waited for.
    job = make_job_id(datetime.now(UTC) + timedelta(hours=2))
    stray = WorkItem(job=job, tenant="default", attempt=1, stage=Stage.DECODE)
    await place.bus.publish_work(place.subject(stray.job), stray.to_event(NOW))

    async def is_gone() -> bool:
        return not await place.bus.has_work(place.subject(stray.job))

    async with place.decoding():
        await until(is_gone, SOON_S)
    letter = await place.dead_letter(stray.job)
    assert letter is not None
    assert f"There is no job {stray.job}." in letter["error"]["message"]
    assert [] == place.decoder.tried_s
