"""Decode a finished file from end to end and hold it against what was asked for.

Runs before every publication, so it does no more than it must: frames are decoded and dropped, never converted or
copied, and only their time stamp, size, format and colour are looked at.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
from av.codec.context import ThreadType

from vitascope.encode.boxes import DamagedBoxes, read_boxes, read_brand
from vitascope.encode.codec import BRAND
from vitascope.encode.colour import BT709_LIMITED, PIXEL_FORMAT, ColourTags, read_tags
from vitascope.encode.failures import VerificationFailed
from vitascope.encode.options import EncodeOptions

MAX_COMPLAINTS = 8  # single frames to name before the rest of the file is left unread
# Stop at damage instead of painting over it, as decoders for the screen do.
_STRICT = {"err_detect": "explode+crccheck+bitstream+buffer"}


@dataclass(frozen=True, kw_only=True)
class VerifiedVideo:
    """What a file really holds. `duration_s` is exact; `audio_duration_s` is None in a silent film."""

    frames: int
    duration_s: Fraction
    width: int
    height: int
    fps: Fraction
    size_bytes: int
    sha256: str
    pixel_format: str
    colour: ColourTags
    is_index_first: bool
    audio_duration_s: Fraction | None


def verify_mp4(path: Path, options: EncodeOptions) -> VerifiedVideo:
    """Decode the file at `path` and return what it holds.

    Raises `VerificationFailed` that names everything found to differ from `options`; `OSError` if there is no file.
    Damage that still is legal H.264 cannot be seen here; the digest of what was verified is what guards the way on.
    Memory: the decoder's own frames, whatever the length. Time: about a tenth of the encode at preset medium.
    """
    layout = list(_find_layout_differences(path))
    try:
        with av.open(str(path)) as container:
            _must_have_tracks(container, options)
            seen = _decode(container, options)
    except av.error.FFmpegError as error:
        raise VerificationFailed((*layout, f"does not decode: {error}")) from error
    differences = (*layout, *seen.complaints, *_find_differences(seen, options))
    if differences:
        raise VerificationFailed(differences)
    return VerifiedVideo(
        frames=seen.frames,
        duration_s=seen.duration_s,
        width=seen.look.width,
        height=seen.look.height,
        fps=seen.fps,
        size_bytes=path.stat().st_size,
        sha256=_compute_sha256(path),
        pixel_format=seen.look.pixel_format,
        colour=seen.look.colour,
        is_index_first=True,
        audio_duration_s=seen.audio_duration_s,
    )


@dataclass(frozen=True)
class _Look:
    """What must be the same in every frame."""

    width: int
    height: int
    pixel_format: str
    colour: ColourTags


@dataclass(kw_only=True)
class _Seen:
    """What one pass over the file has shown; the complaints are what only single frames can show."""

    look: _Look
    fps: Fraction
    duration_s: Fraction
    audio_duration_s: Fraction | None
    audio_layout: tuple[int, int] | None  # hertz, channels
    frames: int = 0
    audio_samples: int = 0
    complaints: list[str] = field(default_factory=list)


def _find_layout_differences(path: Path) -> Iterator[str]:
    """Compare order and sizes of the outermost boxes with those of a finished file."""
    try:
        kinds = [box.kind for box in read_boxes(path)]
    except DamagedBoxes as error:
        yield f"damaged or cut: {error}"
        return
    brand = read_brand(path)
    if brand != BRAND:
        yield f"brand is {brand}, not {BRAND}"
    if "moov" not in kinds or "mdat" not in kinds:
        yield f"holds no complete film: boxes {kinds}"
    elif kinds.index("moov") > kinds.index("mdat"):
        yield "index (moov) comes after the pictures (mdat)"


def _must_have_tracks(container: av.container.InputContainer, options: EncodeOptions) -> None:
    """Raise unless the tracks are one H.264 and, where sound was promised, one AAC."""
    codecs = sorted(stream.codec_context.name if stream.codec_context else stream.type for stream in container.streams)
    expected = ["h264"] if options.audio is None else ["aac", "h264"]
    if codecs != expected:
        raise VerificationFailed((f"tracks are {codecs}, not {expected}",))


def _decode(container: av.container.InputContainer, options: EncodeOptions) -> _Seen:
    """Decode every frame of both tracks in one pass."""
    video = container.streams.video[0]
    audio = container.streams.audio[0] if options.audio is not None else None
    video.codec_context.options = _STRICT
    video.codec_context.thread_type = ThreadType.FRAME
    video.codec_context.thread_count = options.threads
    seen = _Seen(
        look=_read_look(video.codec_context),
        fps=Fraction(video.average_rate or 0),
        duration_s=(video.duration or 0) * video.time_base,
        audio_duration_s=None if audio is None else (audio.duration or 0) * audio.time_base,
        audio_layout=None if audio is None else (audio.codec_context.sample_rate, audio.codec_context.channels),
    )
    ticks = 1 / (options.fps * video.time_base)  # from frame to frame
    for frame in container.decode(*container.streams):
        if isinstance(frame, av.AudioFrame):
            seen.audio_samples += frame.samples
        elif len(seen.complaints) < MAX_COMPLAINTS:
            seen.complaints += _find_frame_differences(frame, seen, seen.frames * ticks)
            seen.frames += 1
        else:
            break
    return seen


def _read_look(source: Any) -> _Look:  # Any: a frame or a decoder, which PyAV gives no common type
    pixel_format = source.format.name if source.format else "unknown"
    return _Look(source.width, source.height, pixel_format, read_tags(source))


def _find_frame_differences(frame: av.VideoFrame, seen: _Seen, due: Fraction) -> Iterator[str]:
    if frame.pts != due:
        yield f"frame {seen.frames} is shown at tick {frame.pts}, not {due}"
    if frame.is_corrupt:
        yield f"frame {seen.frames} is damaged"
    look = _read_look(frame)
    if look != seen.look:
        yield f"frame {seen.frames} is {look}, the track {seen.look}"


def _find_differences(seen: _Seen, options: EncodeOptions) -> Iterator[str]:
    """Hold what was seen against what was asked for."""
    expected = _expect(options)
    found = {
        "frames": seen.frames,
        "fps": seen.fps,
        "duration_s": seen.duration_s,
        "size": (seen.look.width, seen.look.height),
        "pixel format": seen.look.pixel_format,
        "colour": seen.look.colour,
        "sound": seen.audio_layout,
    }
    for name, value in expected.items():
        if found[name] != value:
            yield f"{name} is {found[name]}, not {value}"
    if options.audio is None or seen.audio_duration_s is None:
        return
    due_s = Fraction(options.audio_samples, options.audio.sample_rate)
    if abs(seen.audio_duration_s - due_s) > Fraction(1, options.movie_timescale):  # lengths are kept in such ticks
        yield f"sound duration_s is {seen.audio_duration_s}, not {due_s}"
    if seen.audio_samples < options.audio_samples:
        yield f"sound decodes to {seen.audio_samples} samples, not {options.audio_samples}"


def _expect(options: EncodeOptions) -> dict[str, object]:
    audio = options.audio
    return {
        "frames": options.num_frames,
        "fps": options.fps,
        "duration_s": options.duration_s,
        "size": (options.width, options.height),
        "pixel format": PIXEL_FORMAT,
        "colour": BT709_LIMITED,
        "sound": None if audio is None else (audio.sample_rate, audio.channels),
    }


def _compute_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
