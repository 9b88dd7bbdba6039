"""Pixel chunks and sound to one MP4 on the local disk.

The file is H.264 yuv420p, BT.709 limited and tagged, with AAC if sound was promised; index first, exact rational rate,
and the same bytes for the same input, in whatever order sound and pictures arrive and in whatever chunks.
"""

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import av
import numpy as np
from av.codec.context import Flags, ThreadType
from numpy.typing import NDArray

from vitascope.encode.audio import AudioTrack
from vitascope.encode.colour import PIXEL_FORMAT, Bt709Converter, apply_tags
from vitascope.encode.failures import AudioRefused, ChunkRefused, EncodeFailed, FrameCountMismatch
from vitascope.encode.options import EncodeOptions

BRAND = "mp42"


class Mp4Writer:
    """Writes one file, as a context manager: a clean end finishes it, an exception leaves no file behind.

    Not safe for several threads at once; blocks while it encodes. To cancel, stop calling and `abort`.
    Memory: libx264's own frames (about as many as its lookahead) and, if sound comes late, the compressed pictures.
    """

    def __init__(self, path: Path, options: EncodeOptions) -> None:
        self._path = path
        self._options = options
        self._converter = Bt709Converter()
        self._frames = 0
        self._open: _OpenFile | None = None

    @property
    def frames_written(self) -> int:
        """Frames taken so far."""
        return self._frames

    def __enter__(self) -> Self:
        with _translated("opening the file"):
            self._open = _OpenFile(self._path, self._options)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is not None:
            self.abort()
        elif self._open is not None:
            self.finish()

    def write_frames(self, chunk: NDArray[np.uint8]) -> None:
        """Encode `chunk`, uint8 RGB (F, H, W, 3), C-contiguous; it is only read and may be reused on return.

        Raises `ChunkRefused`, or `FrameCountMismatch` before any frame beyond the promised number is taken.
        """
        _check_chunk(chunk, self._options)
        received = self._frames + len(chunk)
        if received > self._options.num_frames:
            raise FrameCountMismatch(promised=self._options.num_frames, received=received)
        opened = self._must_be_open()
        with _translated("encoding pictures"):
            for picture in chunk:
                frame = self._converter.convert(picture)
                frame.pts, frame.duration, frame.time_base = self._frames, 1, 1 / self._options.fps
                opened.container.mux(opened.video.encode(frame))
                self._frames += 1

    def write_audio(self, samples: NDArray[np.float32], rate: int) -> None:
        """Encode `samples`, float32 (channels, n) in -1 to 1 at `rate` hertz, following on what came before.

        May come before, between or after the pictures. What lasts longer than the picture is cut off, and what ends
        sooner is followed by silence. Raises `AudioRefused`.
        """
        opened = self._must_be_open()
        if opened.audio is None:
            raise AudioRefused("the options promise no sound")
        with _translated("encoding sound"):
            opened.mux_all(opened.audio.encode(samples, rate))

    def finish(self) -> None:
        """Complete the file and move its index to the front. On any error no file is left."""
        opened = self._must_be_open()
        try:
            if self._frames != self._options.num_frames:
                raise FrameCountMismatch(promised=self._options.num_frames, received=self._frames)  # noqa: TRY301 - one way out
            with _translated("completing the file"):
                opened.complete()
        except BaseException:
            self.abort()
            raise
        self._open = None  # frees codec and muxer now: they hold the memory of a whole lookahead

    def abort(self) -> None:
        """Close and remove the file, whatever state it is in; a second call does nothing."""
        opened, self._open = self._open, None
        if opened is None:
            return
        try:
            # Closing writes an index for a file that is about to go: its complaints concern nobody.
            with contextlib.suppress(av.error.FFmpegError):
                opened.container.close()
        finally:
            self._path.unlink(missing_ok=True)

    def _must_be_open(self) -> "_OpenFile":
        assert self._open is not None, "the writer is used inside its with block, and not after finish or abort"
        return self._open


class _OpenFile:
    """The muxer and the encoders of a file that is being written."""

    def __init__(self, path: Path, options: EncodeOptions) -> None:
        self.container = av.open(
            str(path),
            "w",
            format="mp4",
            options={
                "brand": BRAND,
                "fflags": "+bitexact",  # no version of the library, no time of creation
                "max_interleave_delta": "0",  # wait for the other track for ever: order of arrival leaves no trace
                "movflags": "+faststart",
                "movie_timescale": str(options.movie_timescale),  # 1/1000 s would round the length of the edit lists
                "video_track_timescale": str(options.timescale),
            },
        )
        self.video = self.container.add_stream(
            "libx264",
            rate=options.fps,
            time_base=1 / options.fps,
            width=options.width,
            height=options.height,
            pix_fmt=PIXEL_FORMAT,
            options={**options.codec_options, "crf": str(options.crf), "preset": options.preset},
        )
        context = self.video.codec_context
        context.thread_type = ThreadType.FRAME  # PyAV's default cuts pictures into slices: a larger, poorer file
        context.thread_count = options.threads
        context.flags |= Flags.bitexact
        apply_tags(context)
        self.audio = None if options.audio is None else AudioTrack(self.container, options.audio, options.audio_samples)

    def mux_all(self, packets: Iterable[av.Packet]) -> None:
        for packet in packets:
            self.container.mux_one(packet)

    def complete(self) -> None:
        self.mux_all(self.video.encode(None))
        if self.audio is not None:
            if not self.audio.has_sound:
                raise AudioRefused("sound was promised and none came")
            self.mux_all(self.audio.finish())
        self.container.close()


def _check_chunk(chunk: NDArray[np.uint8], options: EncodeOptions) -> None:
    picture = (options.height, options.width, 3)
    if chunk.dtype != np.uint8 or chunk.shape[1:] != picture or not chunk.flags.c_contiguous:
        layout = "C-contiguous" if chunk.flags.c_contiguous else "not C-contiguous"
        raise ChunkRefused(f"expected C-contiguous uint8 (F, {picture}), got {layout} {chunk.dtype} {chunk.shape}")


@contextlib.contextmanager
def _translated(doing: str) -> Iterator[None]:
    try:
        yield
    except av.error.FFmpegError as error:
        raise EncodeFailed(f"{doing}: {error}", errno=error.errno) from error
