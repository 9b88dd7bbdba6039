"""Small films for the tests of the encode library."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

from vitascope.encode.codec import Mp4Writer
from vitascope.encode.options import EncodeOptions


def make_options(**changes: Any) -> EncodeOptions:
    fields: dict[str, Any] = {
        "width": 64,
        "height": 48,
        "num_frames": 9,
        "fps": Fraction(16),
        "preset": "veryfast",
        "threads": 2,
    }
    return EncodeOptions(**{**fields, **changes})


def make_pixels(options: EncodeOptions) -> NDArray[np.uint8]:
    """A soft gradient that moves sideways, so that every frame differs from the one before."""
    row = np.arange(options.width)[None, :] * 2 + np.arange(options.num_frames)[:, None] * 5
    pixels = np.empty((options.num_frames, options.height, options.width, 3), np.uint8)
    pixels[..., 0] = (row % 256)[:, None, :]
    pixels[..., 1] = (np.arange(options.height) * 3 % 256)[None, :, None]
    pixels[..., 2] = 90
    return pixels


def make_tone(samples: int, *, rate: int, channels: int = 2, hertz: float = 440.0) -> NDArray[np.float32]:
    wave = 0.5 * np.sin(2 * np.pi * hertz * np.arange(samples) / rate)
    return np.ascontiguousarray(np.broadcast_to(wave, (channels, samples)), np.float32)


def write_film(path: Path, options: EncodeOptions, pixels: NDArray[np.uint8] | None = None) -> Path:
    with Mp4Writer(path, options) as writer:
        writer.write_frames(make_pixels(options) if pixels is None else pixels)
        if options.audio is not None:
            writer.write_audio(
                make_tone(options.audio_samples, rate=options.audio.sample_rate, channels=options.audio.channels),
                options.audio.sample_rate,
            )
    return path


def write_foreign_film(
    path: Path,
    options: EncodeOptions,
    *,
    movflags: str = "+faststart",
    brand: str = "mp42",
    codec: str = "libx264",
    pix_fmt: str = "yuv420p",
    tags: dict[str, int] | None = None,
    skip_pts: int | None = None,
) -> Path:
    """A film as another program might write it, for `verify_mp4` to find fault with; all right by default."""
    tags = {"colorspace": 1, "color_primaries": 1, "color_trc": 1, "color_range": 1} if tags is None else tags
    container_options = {"movflags": movflags, "brand": brand} | {
        name: str(options.timescale) for name in ("movie_timescale", "video_track_timescale")
    }
    with av.open(str(path), "w", format="mp4", options=container_options) as container:
        stream = container.add_stream(codec, rate=options.fps, width=options.width, height=options.height)
        stream.pix_fmt = pix_fmt
        stream.codec_context.time_base = 1 / options.fps
        for name, value in tags.items():
            setattr(stream.codec_context, name, value)
        for index, picture in enumerate(make_pixels(options)):
            frame = av.VideoFrame.from_ndarray(picture).reformat(format=pix_fmt)
            for name, value in tags.items():
                setattr(frame, name, value)
            frame.pts = index + (skip_pts is not None and index >= skip_pts)
            frame.time_base, frame.duration = 1 / options.fps, 1
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def decode_rgb_bt709(path: Path) -> NDArray[np.float64]:
    """Decode to RGB 0 to 255, float (F, H, W, 3), by BT.709's own formula; chroma is repeated, not smoothed."""
    frames = []
    with av.open(str(path)) as container:
        for frame in container.decode(video=0):
            planes = frame.to_ndarray(format="yuv420p").astype(np.float64)
            height, width = frame.height, frame.width
            luma = (planes[:height] - 16) / 219
            blue, red = (
                (plane.reshape(height // 2, width // 2).repeat(2, 0).repeat(2, 1) - 128) / 224
                for plane in np.split(planes[height:].reshape(2, -1), 2)
            )
            r = luma + 1.5748 * red
            b = luma + 1.8556 * blue
            g = (luma - 0.2126 * r - 0.0722 * b) / 0.7152
            frames.append(np.stack([r, g, b], -1) * 255)
    return np.stack(frames)
