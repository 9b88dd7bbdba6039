"""Pieces into the store, and the word that they are there, so that encode can follow."""

import time

import structlog

from vitascope.contracts.events import FramesReady, make_work_item
from vitascope.contracts.failures import VitascopeError
from vitascope.contracts.flow import Stage
from vitascope.contracts.jobs import JobRecord
from vitascope.contracts.objects import audio_key, chunk_key
from vitascope.contracts.subjects import frames_subject, subject_of_work
from vitascope.decode.ring import Piece
from vitascope.runtime.persist import persist
from vitascope.runtime.ports import Bus, Clock, ObjectStore
from vitascope.runtime.progress import ProgressFeed
from vitascope.runtime.stage import Pulse
from vitascope.runtime.tenure import Tenure

CONTENT_TYPE = "application/octet-stream"

log = structlog.get_logger(__name__)


async def publish_encode_work(bus: Bus, clock: Clock, record: JobRecord) -> None:
    """Ask for the clip to be encoded; the same event every time."""
    subject = subject_of_work(record, Stage.ENCODE)
    await bus.publish_work(subject, make_work_item(record, Stage.ENCODE).to_event(clock.now()))


class ChunkUpload:
    """Stores one clip's pieces. A clip that is decoded once more keeps the chunks that were already announced.

    Attributes:
        chunks: pixel chunks stored.
        frames: frames in them.
    """

    def __init__(
        self,
        *,
        bus: Bus,
        store: ObjectStore,
        clock: Clock,
        tenure: Tenure,
        pulse: Pulse,
        feed: ProgressFeed,
    ) -> None:
        self._bus, self._store, self._clock, self._feed = bus, store, clock, feed
        self._tenure, self._pulse = tenure, pulse
        self._began_s = time.monotonic()
        self._next_chunk = 0
        self._has_audio = False
        self.chunks = 0
        self.frames = 0

    def rewind(self) -> None:
        """The decoder starts again from the first frame."""
        self._next_chunk = 0

    async def add(self, piece: Piece) -> None:
        """Store the next piece and announce it.

        Raises:
            StaleAttempt, HandBack: the work has to stop.
            VitascopeError: the store or the bus was away for too long.
        """
        self._tenure.check()
        record, attempt = self._tenure.record, self._tenure.work.attempt
        if not piece.frames:
            await self._put(audio_key(record, attempt), piece)
            self._has_audio = True
            return
        index, self._next_chunk = self._next_chunk, self._next_chunk + 1
        if index < self.chunks:
            return  # encode may have read it: it stays as it is
        await self._put(chunk_key(record, attempt, index), piece)
        self.chunks += 1
        self.frames += piece.frames
        if index == 0:
            await persist(lambda: publish_encode_work(self._bus, self._clock, record), self._pulse, job=record.id)
        await self.announce(is_done=False)
        self._feed.show(self.frames, record.request.num_frames, (time.monotonic() - self._began_s) / self.frames)

    async def announce(self, *, is_done: bool) -> None:
        """Say how many chunks there are. One that is lost costs encode some seconds: it looks for itself."""
        work = self._tenure.work
        ready = FramesReady(
            job=work.job,
            attempt=work.attempt,
            chunks=self.chunks,
            frames=self.frames,
            has_audio=self._has_audio,
            done=is_done,
        )
        try:
            await self._bus.publish_progress(frames_subject(work.tenant, work.job, work.attempt), ready)
        except VitascopeError as error:
            log.warning("chunk not announced", job=work.job, stage=work.stage, attempt=work.attempt, error=str(error))

    async def _put(self, key: str, piece: Piece) -> None:
        await persist(lambda: self._store.put(key, piece.content, CONTENT_TYPE), self._pulse, job=self._tenure.work.job)
