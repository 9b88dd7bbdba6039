"""Small media files for tests, good and bad."""

import io
import struct
import zlib
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import PIL.Image
from numpy.typing import NDArray

RED, BLUE = (255, 0, 0), (0, 0, 255)


def two_colours(width: int = 40, height: int = 20) -> PIL.Image.Image:
    """Left half red, right half blue."""
    image = PIL.Image.new("RGB", (width, height), BLUE)
    image.paste(RED, (0, 0, width // 2, height))
    return image


def png(image: PIL.Image.Image | None = None) -> bytes:
    """The image, or one of two colours, as PNG."""
    return encode(image or two_colours(), "PNG")


def encode(image: PIL.Image.Image, kind: str, **options: Any) -> bytes:
    """The image in a format of Pillow's."""
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def exif_of(orientation: int) -> PIL.Image.Exif:
    """Metadata that says only how the picture is held."""
    exif = PIL.Image.Exif()
    exif[0x0112] = orientation
    return exif


def pixel_bomb(width: int = 50_000, height: int = 50_000) -> bytes:
    """A PNG of few bytes that declares very many pixels."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b"\0" * 1000))
        + chunk(b"IEND", b"")
    )


def ramp(num_frames: int, width: int = 48, height: int = 32) -> list[NDArray[np.uint8]]:
    """Frames of two colours that grow brighter from one to the next."""
    frames = []
    for index in range(num_frames):
        frame = np.zeros((height, width, 3), np.uint8)
        frame[:, : width // 2, 0] = 40 + 10 * index
        frame[:, width // 2 :, 2] = 40 + 10 * index
        frames.append(frame)
    return frames


def video(
    path: Path,
    frames: list[NDArray[np.uint8]] | None = None,
    *,
    rate: Fraction = Fraction(24),
    rotation: int | None = None,
    sound_s: float | None = None,
    codec: str = "libx264",
    format_name: str = "mp4",
    options: dict[str, str] | None = None,
) -> Path:
    """A video; `rotation` in degrees is what a phone would write into it."""
    frames = frames if frames is not None else ramp(12)
    with av.open(str(path), "w", format=format_name) as sink:
        stream: Any = sink.add_stream(codec, rate=rate, options=options or {})
        stream.height, stream.width = frames[0].shape[:2]
        stream.pix_fmt = "yuv420p"
        sound: Any = sink.add_stream("aac", rate=44_100, layout="mono") if sound_s is not None else None
        if rotation is not None:
            stream.set_display_rotation(rotation)
        for frame in frames:
            sink.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        sink.mux(stream.encode(None))
        if sound is not None and sound_s is not None:
            samples = np.sin(np.arange(int(44_100 * sound_s)) / 20).astype(np.float32)[None]
            piece = av.AudioFrame.from_ndarray(samples, format="fltp", layout="mono")
            piece.rate = 44_100
            sink.mux(sound.encode(piece))
            sink.mux(sound.encode(None))
    return path


def sound(path: Path, duration_s: float = 0.5, *, codec: str = "pcm_s16le", format_name: str = "wav") -> Path:
    """A tone of 16 kHz mono."""
    with av.open(str(path), "w", format=format_name) as sink:
        stream: Any = sink.add_stream(codec, rate=16_000, layout="mono")
        samples = (np.sin(np.arange(int(16_000 * duration_s)) / 5) * 8000).astype(np.int16)[None]
        piece = av.AudioFrame.from_ndarray(samples, format="s16", layout="mono")
        piece.rate = 16_000
        sink.mux(stream.encode(piece))
        sink.mux(stream.encode(None))
    return path
