"""Opening a video or a sound: formats and codecs by an allow-list, and no way to any other file or address."""

import errno
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import av

from vitascope.media.refusal import Refusal, Why

FORMATS: Final = ("mov", "mp4", "m4a", "matroska", "webm", "wav", "mp3", "flac", "ogg", "aac")
"""Containers that hold their own media. Playlists and scripts (hls, concat, dash, image2 …) are none."""
VIDEO_CODECS: Final = frozenset(
    {"h264", "hevc", "vp8", "vp9", "libvpx", "libvpx-vp9", "av1", "libdav1d", "mpeg4", "mjpeg", "prores", "ffv1"}
)
AUDIO_CODECS: Final = frozenset(
    {"aac", "mp3", "mp3float", "flac", "vorbis", "opus", "libopus", "alac", "pcm_s16le", "pcm_s16be", "pcm_s24le"}
    | {"pcm_s24be", "pcm_s32le", "pcm_f32le", "pcm_u8", "pcm_f64le"},
)
NO_ROOM = frozenset({errno.EFBIG, errno.ENOSPC})
"""What writing the copy may run into; no fault of the source's form."""
EXACT = {"fflags": "+bitexact"}
"""For the copy: no time of writing and no random id in it, so that equal sources give equal files."""
MAX_STREAMS = 16
PROBE_BYTES = 16 * 1024 * 1024
_OPTIONS = {
    "format_whitelist": ",".join(FORMATS),
    "codec_whitelist": ",".join(sorted(VIDEO_CODECS | AUDIO_CODECS)),
    "protocol_whitelist": "none",  # the file comes through Python; whatever names another one gets nothing
    "probesize": str(PROBE_BYTES),
}


class Plain(io.FileIO):
    """A file without its name, which would be a hint at its format."""

    name = ""


@contextmanager
def open_container(path: Path) -> Iterator[Any]:  # PyAV's containers have no types that hold up here
    """The container of a file.

    Raises:
        Refusal: it is none that is taken, or breaks inside the block.
    """
    try:
        with Plain(path, "rb") as file, av.open(file, options=_OPTIONS, metadata_errors="ignore") as container:
            if len(container.streams) > MAX_STREAMS:
                raise Refusal(Why.INVALID, f"It has more than {MAX_STREAMS} streams.")
            yield container
    except MemoryError:  # PyAV's error for a lack of memory is one, too
        raise
    except av.error.FFmpegError as error:
        if error.errno in NO_ROOM:
            raise
        raise Refusal(Why.INVALID, "It cannot be decoded as video or sound of a format that is taken.") from error


def check_codec(stream: Any, allowed: frozenset[str]) -> None:
    """Refuse a stream by its decoder.

    Raises:
        Refusal: it is not among those allowed, or there is none for it.
    """
    context = stream.codec_context
    if context is None or context.codec.name not in allowed:
        raise Refusal(Why.INVALID, "Its codec is not one that is taken.")
    context.thread_count = 1
