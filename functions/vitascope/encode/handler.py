"""Pixel chunks to a published MP4: encoding follows decoding, one chunk ahead is fetched while one is encoded."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar, TypeVar

import structlog

from vitascope.contracts.chunks import ChunkInvalid, unpack_audio
from vitascope.contracts.deadlines import compute_limits
from vitascope.contracts.events import WorkItem
from vitascope.contracts.failures import Failure, FailureCode, VitascopeError
from vitascope.contracts.flow import Stage, State
from vitascope.contracts.jobs import JobRecord, ObjectRef, Result
from vitascope.contracts.objects import (
    ObjectClass,
    audio_key,
    chunk_key,
    output_key,
    spritesheet_key,
    thumbnail_key,
)
from vitascope.contracts.transitions import StaleAttempt, succeed, withhold
from vitascope.encode.clip import Clip, FinishedClip, Sound
from vitascope.encode.follower import PATIENCE_S, ChunkFollower
from vitascope.encode.screening import Screening
from vitascope.runtime.advance import advance
from vitascope.runtime.beside import run_to_end
from vitascope.runtime.leftovers import MADE_BY_STAGES, remove_leftovers, remove_served
from vitascope.runtime.persist import persist
from vitascope.runtime.ports import Bus, Clock, Ledger, ObjectStore
from vitascope.runtime.progress import ProgressFeed
from vitascope.runtime.settings import EncodeSettings
from vitascope.runtime.stage import HandBack, Pulse
from vitascope.runtime.tenure import Tenure, Tenures, has_finished, load_record
from vitascope.screen import Finding

MADE = (ObjectClass.OUTPUTS,)
SERVED = (ObjectClass.CHECKPOINTS, ObjectClass.LATENTS, ObjectClass.FRAMES)

Answer = TypeVar("Answer")
log = structlog.get_logger(__name__)


@dataclass(kw_only=True)
class EncodeHandler:
    """Works on the encode events of a pool; may be given several clips at once.

    Attributes:
        ledger: the ledger.
        bus: the bus.
        store: the object store.
        clock: the time.
        settings: of this process.
        screening: what looks at a clip before it is uploaded, if anything does.
    """

    ledger: Ledger
    bus: Bus
    store: ObjectStore
    clock: Clock
    settings: EncodeSettings
    screening: Screening | None = None
    stage: ClassVar[Stage] = Stage.ENCODE
    _tenures: Tenures = field(init=False)

    def __post_init__(self) -> None:
        self._tenures = Tenures(self.ledger)

    async def handle(self, work: WorkItem, pulse: Pulse) -> None:
        """Encode and publish a clip; see `StageHandler`. The scratch folder is gone afterwards, however it ends."""
        try:
            record = await load_record(self.ledger, work)
            if has_finished(record, work):
                await remove_served(self.ledger, self.store, work, SERVED)
                return
            pulse.expect(compute_limits(record, self.stage))
            async with self._tenures.hold(work, record) as tenure:
                with TemporaryDirectory(prefix="vitascope-encode-", dir=self.settings.scratch) as folder:
                    is_published = await EncodeRun(self, tenure, pulse).run(Path(folder))
            await remove_served(self.ledger, self.store, work, SERVED if is_published else MADE_BY_STAGES)
        except StaleAttempt:
            await remove_leftovers(self.ledger, self.store, work, MADE)
            raise

    async def drain(self) -> None:
        """Stop at the next chunk; somebody else encodes the clip from its chunks."""
        self._tenures.drain()

    async def prove(self) -> None:
        """Nothing to show: it works in the machine's memory, which is as before once a clip has been given up."""


class EncodeRun:
    """One clip on its way through the stage."""

    def __init__(self, ports: EncodeHandler, tenure: Tenure, pulse: Pulse) -> None:
        self._ports, self._tenure, self._pulse = ports, tenure, pulse
        self._follower = ChunkFollower(bus=ports.bus, store=ports.store, tenure=tenure)
        self._busy_s = 0.0

    async def run(self, folder: Path) -> bool:
        """Follow the chunks to the end, then publish the file, or withhold it; whether it was published.

        Raises:
            StaleAttempt, HandBack: the work has to stop.
            VitascopeError: what went wrong.
        """
        async with self._follower.following():
            clip = await self._encode(folder / "video.mp4")
        await self._wait_decoded()
        self._tenure.check_stale()
        finding = await self._screen(clip)
        if finding is not None:
            await self._withhold(finding)
            return False
        await self._publish(clip)
        return True

    async def _wait_decoded(self) -> None:
        """All chunks are there, and encoded; decode is about to say that it has made them."""
        try:
            with self._pulse.waiting():
                async with asyncio.timeout(PATIENCE_S):
                    await self._tenure.wait_until(lambda record: record.state is not State.DECODING)
        except TimeoutError:
            raise HandBack from None

    async def _encode(self, path: Path) -> FinishedClip:
        ports, record = self._ports, self._tenure.record
        with self._pulse.waiting():
            await self._follower.wait_for(0)
        stills = ports.screening.pick(record.request.num_frames) if ports.screening is not None else ()
        clip = Clip(path, record.request, ports.settings, await self._load_sound(), stills=stills)
        try:
            await self._in_thread(clip.open)
            async with (
                ProgressFeed(ports.bus, ports.clock, record, Stage.ENCODE) as feed,
                aclosing(self._fetch_chunks()) as chunks,
            ):
                async for chunk in chunks:
                    await self._in_thread(partial(clip.add, chunk))
                    self._tenure.check_stale()
                    self._show(feed, clip.frames)
                    if clip.frames == record.request.num_frames:
                        break  # complete, whether decode has said so yet or not
            self._pulse.begin()
            return await self._in_thread(clip.finish)
        finally:
            clip.abort()

    async def _fetch_chunks(self) -> AsyncGenerator[bytes, None]:
        """The chunks in order; while one is being encoded, the next is already on its way."""
        index = 0
        ahead = self._begin_fetch(index)
        try:
            while True:
                with self._pulse.waiting():  # for decode, or for the store
                    chunk = await ahead
                if chunk is None:
                    return
                index += 1
                ahead = self._begin_fetch(index)
                yield chunk
        finally:
            ahead.cancel()
            await asyncio.wait({ahead})
            if not ahead.cancelled():
                ahead.exception()  # asked for: the failure that counts is the one that ended the loop

    def _begin_fetch(self, index: int) -> asyncio.Task[bytes | None]:
        return asyncio.create_task(self._fetch(index), name=f"chunk {index} of {self._tenure.work.job}")

    async def _fetch(self, index: int) -> bytes | None:
        if not await self._follower.wait_for(index):
            return None
        key = chunk_key(self._tenure.record, self._tenure.work.attempt, index)
        # Beside the encoder, which is watched: whoever needs the chunk says that he waits.
        return await persist(lambda: self._ports.store.get(key), None, job=self._tenure.work.job)

    async def _load_sound(self) -> Sound | None:
        """The sound, stored before the first chunk if there is any."""
        key = audio_key(self._tenure.record, self._tenure.work.attempt)
        if await self._ports.store.size(key) is None:
            return None
        try:
            return Sound(*unpack_audio(await self._ports.store.get(key)))
        except ChunkInvalid as error:
            raise VitascopeError(FailureCode.OBJECT_CORRUPT, f"The sound: {error}.") from error

    async def _screen(self, clip: FinishedClip) -> Finding | None:
        screening = self._ports.screening
        return await screening.check(clip.stills, self._tenure, self._pulse) if screening is not None else None

    async def _withhold(self, finding: Finding) -> None:
        """Nothing of the clip has left the scratch folder, and nothing will."""
        ports, work = self._ports, self._tenure.work
        detail = f"It was taken for {finding.category}."
        failure = Failure.of(FailureCode.OUTPUT_WITHHELD, detail, stage=work.stage)

        def change(record: JobRecord) -> JobRecord:
            if record.run.attempt == work.attempt and record.state is State.WITHHELD:  # as in `_publish`
                return record
            return withhold(record, work.attempt, failure, stage_s=self._busy_s, now=ports.clock.now())

        await persist(lambda: advance(ports.ledger, work.job, change), self._pulse, job=work.job)
        log.info(
            "clip withheld",
            job=work.job,
            stage=work.stage,
            attempt=work.attempt,
            screen=finding.screen,
            category=finding.category,
            rule=finding.rule,
        )

    async def _publish(self, clip: FinishedClip) -> None:
        ports, tenure, began_s = self._ports, self._tenure, time.monotonic()
        work, store = tenure.work, ports.store
        output = output_key(tenure.record, work.attempt)

        async def put(key: str, picture: bytes) -> ObjectRef:
            return await persist(lambda: store.put(key, picture, "image/jpeg"), self._pulse, job=work.job)

        result = Result(
            output=await persist(lambda: store.put_file(output, clip.path, "video/mp4"), self._pulse, job=work.job),
            thumbnail=await put(thumbnail_key(tenure.record, work.attempt), clip.thumbnail),
            spritesheet=await put(spritesheet_key(tenure.record, work.attempt), clip.spritesheet),
            num_frames=clip.verified.frames,
            fps=clip.verified.fps,
            duration_s=float(clip.verified.duration_s),
            has_audio=clip.verified.audio_duration_s is not None,
        )
        stage_s = self._busy_s + time.monotonic() - began_s

        def change(record: JobRecord) -> JobRecord:
            if has_finished(record, work):  # an earlier try whose answer was lost
                return record
            return succeed(record, work.attempt, result, stage_s=stage_s, now=ports.clock.now())

        await persist(lambda: advance(ports.ledger, work.job, change), self._pulse, job=work.job)
        log.info("clip published", job=work.job, stage=work.stage, attempt=work.attempt)

    async def _in_thread(self, act: Callable[[], Answer]) -> Answer:
        began_s = time.monotonic()
        try:
            return await run_to_end(None, act)
        finally:
            self._busy_s += time.monotonic() - began_s
            self._pulse.touch()

    def _show(self, feed: ProgressFeed, frames: int) -> None:
        # While decode is at work, its progress is the job's: two stages in turn would read as a step back.
        if self._tenure.record.state is not State.DECODING:
            feed.show(frames, self._tenure.record.request.num_frames, self._busy_s / frames)
