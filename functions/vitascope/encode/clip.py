"""One clip in the making: chunks go in, a verified file, a thumbnail and a spritesheet come out. Blocking."""

import errno
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vitascope.contracts.chunks import ChunkInvalid, unpack_chunk
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.jobs import VideoRequest
from vitascope.encode.codec import Mp4Writer
from vitascope.encode.failures import EncodeError, EncodeFailed, InvalidOptions, VerificationFailed
from vitascope.encode.options import DEFAULT_THREADS, AudioOptions, EncodeOptions
from vitascope.encode.screening import STILL_MAX_PX
from vitascope.encode.spritesheet import Spritesheet
from vitascope.encode.thumbnail import make_thumbnail
from vitascope.encode.verify import VerifiedVideo, verify_mp4
from vitascope.runtime.settings import EncodeSettings
from vitascope.screen import Still

NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})


@dataclass(frozen=True)
class Sound:
    """Samples, float32 (channels, n), and their rate in hertz."""

    samples: NDArray[np.float32]
    rate: int


@dataclass(frozen=True)
class FinishedClip:
    """The file at `path`, what it was found to hold, its thumbnail and spritesheet (JPEG), and the frames asked for."""

    path: Path
    verified: VerifiedVideo
    thumbnail: bytes
    spritesheet: bytes
    stills: tuple[Still, ...] = ()


class Clip:
    """A context manager; leaving it without `finish` leaves no file. Used from one thread at a time.

    Everything raises `VitascopeError`: `invalid_request` for options that cannot be, `encode_failed`,
    `verification_failed`, `object_corrupt` for a chunk that is not what it should be, `store_full` for a full disk.
    """

    def __init__(
        self,
        path: Path,
        request: VideoRequest,
        settings: EncodeSettings,
        sound: Sound | None,
        *,
        stills: Collection[int] = (),
    ) -> None:
        """`stills` are the frames to keep pictures of, counted from 0."""
        self._path, self._sound = path, sound
        self._wanted, self._stills = stills, list[Still]()
        with _failures_translated():
            self._options = compute_options(request, settings, sound)
        self._writer = Mp4Writer(path, self._options)
        self._middle: NDArray[np.uint8] | None = None
        self._sheet = Spritesheet(self._options.num_frames)

    @property
    def frames(self) -> int:
        """Frames written."""
        return self._writer.frames_written

    def open(self) -> None:
        """Begin the file; the sound goes in first."""
        with _failures_translated():
            self._writer.__enter__()
            if self._sound is not None:
                self._writer.write_audio(self._sound.samples, self._sound.rate)

    def add(self, chunk: bytes) -> None:
        """Encode a stored pixel chunk."""
        with _failures_translated():
            pixels, first_frame = unpack_chunk(chunk)
            if first_frame != self.frames:
                raise ChunkInvalid(f"starts at frame {first_frame}, not {self.frames}")
            self._writer.write_frames(pixels)
            self._sheet.add(pixels, first_frame)
            self._stills += (
                Still(frame, make_thumbnail(pixels[frame - first_frame], STILL_MAX_PX))
                for frame in range(first_frame, first_frame + len(pixels))
                if frame in self._wanted
            )
        middle = self._options.num_frames // 2 - first_frame
        if 0 <= middle < len(pixels):
            self._middle = pixels[middle].copy()

    def finish(self) -> FinishedClip:
        """Complete the file, decode it once, make the thumbnail of its middle frame and the spritesheet."""
        with _failures_translated():
            self._writer.finish()
            verified = verify_mp4(self._path, self._options)
            assert self._middle is not None, "a complete clip has a middle"
            thumbnail, sheet = make_thumbnail(self._middle), self._sheet.finish()
            return FinishedClip(self._path, verified, thumbnail, sheet, tuple(self._stills))

    def abort(self) -> None:
        """Give up; harmless after `finish`."""
        self._writer.abort()


def compute_options(request: VideoRequest, settings: EncodeSettings, sound: Sound | None) -> EncodeOptions:
    """What the file shall be: the request's own options go before the process's settings.

    Raises:
        InvalidOptions: they cannot be.
    """
    wished = dict(request.video_codec_options)
    return EncodeOptions(
        width=request.width,
        height=request.height,
        num_frames=request.num_frames,
        fps=request.fps,
        crf=_take_crf(wished, settings.crf),
        preset=wished.pop("preset", settings.preset),
        codec_options=wished,
        audio=None if sound is None else AudioOptions(sample_rate=sound.rate, channels=len(sound.samples)),
        threads=settings.threads or DEFAULT_THREADS,
    )


def _take_crf(wished: dict[str, str], default: float) -> float:
    text = wished.pop("crf", None)
    try:
        return default if text is None else float(text)
    except ValueError as error:
        raise InvalidOptions("crf", f"{text!r} is not a number") from error


@contextmanager
def _failures_translated() -> Iterator[None]:
    try:
        yield
    except ChunkInvalid as error:
        raise VitascopeError(FailureCode.OBJECT_CORRUPT, f"A pixel chunk: {error}.") from error
    except EncodeError as error:
        raise VitascopeError(_code_of(error), str(error)) from error
    except OSError as error:
        code = FailureCode.STORE_FULL if error.errno in NO_SPACE else FailureCode.ENCODE_FAILED
        raise VitascopeError(code, "The scratch folder cannot be written to.") from error


def _code_of(error: EncodeError) -> FailureCode:
    if isinstance(error, EncodeFailed) and error.errno in NO_SPACE:
        return FailureCode.STORE_FULL
    codes: Mapping[type[EncodeError], FailureCode] = {
        InvalidOptions: FailureCode.INVALID_REQUEST,
        VerificationFailed: FailureCode.VERIFICATION_FAILED,
    }
    return codes.get(type(error), FailureCode.ENCODE_FAILED)
