"""Latents to pixel chunks: each is stored and announced while the next is being decoded."""

import asyncio
import gc
import time
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

import structlog

from vitascope.contracts.deadlines import compute_limits
from vitascope.contracts.events import WorkItem
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.flow import Stage
from vitascope.contracts.jobs import JobRecord
from vitascope.contracts.objects import ObjectClass
from vitascope.contracts.transitions import StaleAttempt, finish_decode
from vitascope.decode.decoder import Decoder
from vitascope.decode.pieces import make_pieces
from vitascope.decode.ring import Ring
from vitascope.decode.tiles import plan_tiles
from vitascope.decode.upload import ChunkUpload, publish_encode_work
from vitascope.runtime.advance import advance
from vitascope.runtime.beside import run_to_end
from vitascope.runtime.leftovers import remove_leftovers
from vitascope.runtime.outcome import is_out_of_memory
from vitascope.runtime.persist import persist
from vitascope.runtime.ports import Bus, Clock, Ledger, ObjectStore
from vitascope.runtime.progress import ProgressFeed
from vitascope.runtime.settings import DecodeSettings
from vitascope.runtime.stage import Pulse
from vitascope.runtime.tenure import Tenure, Tenures, has_finished, load_record

MADE = (ObjectClass.FRAMES,)

log = structlog.get_logger(__name__)


@dataclass(kw_only=True)
class DecodeHandler:
    """Works on the decode events of a pool; decodes one clip at a time.

    Attributes:
        ledger: the ledger.
        bus: the bus.
        store: the object store.
        clock: the time.
        decoder: the engine.
        settings: of this process.
        thread: the one thread in which the decoder runs, and in which it was loaded.
    """

    ledger: Ledger
    bus: Bus
    store: ObjectStore
    clock: Clock
    decoder: Decoder
    settings: DecodeSettings
    thread: Executor
    stage: ClassVar[Stage] = Stage.DECODE
    _decoder_free: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    _tenures: Tenures = field(init=False)

    def __post_init__(self) -> None:
        self._tenures = Tenures(self.ledger)

    async def handle(self, work: WorkItem, pulse: Pulse) -> None:
        """Decode a clip; see `StageHandler`. A repetition stores the same chunks under the same keys."""
        try:
            record = await load_record(self.ledger, work)
            if has_finished(record, work):
                await publish_encode_work(self.bus, self.clock, record)
                return
            pulse.expect(compute_limits(record, self.stage))
            async with self._tenures.hold(work, record) as tenure:
                await self._work(tenure, pulse)
        except StaleAttempt:
            await remove_leftovers(self.ledger, self.store, work, MADE)
            raise

    async def drain(self) -> None:
        """Stop at the next chunk; somebody else decodes the clip from its latents."""
        self._tenures.drain()

    async def prove(self) -> None:
        """Decode next to nothing; see `StageHandler`. What the failed clip left in memory is freed first."""
        async with self._decoder_free:
            await run_to_end(self.thread, gc.collect)
            await run_to_end(self.thread, self.decoder.prove)

    async def _work(self, tenure: Tenure, pulse: Pulse) -> None:
        latents = tenure.record.run.latents
        assert latents is not None, "a job that is decoding has latents"
        blob = await self.store.get(latents)
        async with self._decoder_free, ProgressFeed(self.bus, self.clock, tenure.record, self.stage) as feed:
            tenure.check()
            feed.show(0, tenure.record.request.num_frames)
            began_s = time.monotonic()
            upload = ChunkUpload(
                bus=self.bus,
                store=self.store,
                clock=self.clock,
                tenure=tenure,
                pulse=pulse,
                feed=feed,
            )
            await self._decode_in_memory(tenure, pulse, upload, blob)
            decoded_s = time.monotonic() - began_s
        await self._finish(tenure, pulse, upload, decoded_s)

    async def _decode_in_memory(self, tenure: Tenure, pulse: Pulse, upload: ChunkUpload, blob: bytes) -> None:
        """Decode, in smaller and smaller tiles while memory runs out; the latents stay as they are.

        Raises:
            VitascopeError: `decode_out_of_memory`, even in the smallest tiles.
        """
        request, work = tenure.record.request, tenure.work
        fields = {"job": work.job, "stage": self.stage, "attempt": work.attempt}
        for tile_px in plan_tiles(request.width, request.height, self.settings.tile_px):
            upload.rewind()
            pulse.begin()
            ring = Ring()
            act = partial(make_pieces, self.decoder, ring.put, pulse, model=request.model, blob=blob, tile_px=tile_px)
            try:
                await self._decode(tenure, upload, ring, act)
            except Exception as error:
                if not is_out_of_memory(error):
                    raise
                log.warning("decode ran out of memory", **fields, tile_px=tile_px, error=str(error))
            else:
                return
            # The failed try's tensors hang on its error's trace, and that on itself: free them before the next try.
            await run_to_end(self.thread, gc.collect)
        raise VitascopeError(FailureCode.DECODE_OUT_OF_MEMORY)

    async def _decode(self, tenure: Tenure, upload: ChunkUpload, ring: Ring, act: Callable[[], None]) -> None:
        making = asyncio.create_task(self._make(act, ring), name=f"decoder of {tenure.work.job}")
        try:
            async with aclosing(ring.drain()) as pieces:
                async for piece in pieces:
                    await upload.add(piece)
        finally:
            await ring.close()
            await asyncio.wait({making})
            failure = None if making.cancelled() else making.exception()
        if failure is not None:
            raise failure

    async def _make(self, act: Callable[[], None], ring: Ring) -> None:
        try:
            await run_to_end(self.thread, act)
        finally:
            await ring.close()

    async def _finish(self, tenure: Tenure, pulse: Pulse, upload: ChunkUpload, decoded_s: float) -> None:
        work, promised = tenure.work, tenure.record.request.num_frames
        if upload.frames != promised:
            raise VitascopeError(FailureCode.DECODE_FAILED, f"{upload.frames} frames instead of {promised}.")

        def change(record: JobRecord) -> JobRecord:
            if has_finished(record, work):  # an earlier try whose answer was lost
                return record
            chunks, now = upload.chunks, self.clock.now()
            return finish_decode(record, work.attempt, chunks=chunks, stage_s=decoded_s, now=now)

        await persist(lambda: advance(self.ledger, work.job, change), pulse, job=work.job)
        await upload.announce(is_done=True)
