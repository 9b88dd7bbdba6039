"""One picture as a small JPEG, for lists and players.

JPEG files are BT.601 full range by their own standard (JFIF 1.02), unlike the film itself.
"""

from fractions import Fraction

import av
import numpy as np
from av.codec.context import Flags
from av.video.reformatter import ColorRange, Colorspace, Interpolation, VideoReformatter
from numpy.typing import NDArray

from vitascope.encode.failures import ChunkRefused, EncodeFailed

DEFAULT_MAX_PX = 320
# mjpeg's quantiser, 2 (best) to 31, in libavutil's unit of 118 (FF_QP2LAMBDA); 3 shows no blocks at this size.
_QUALITY = 3 * 118
_SCALING = Interpolation.AREA | Interpolation.ACCURATE_RND | Interpolation.BITEXACT


def make_thumbnail(frame: NDArray[np.uint8], max_px: int = DEFAULT_MAX_PX) -> bytes:
    """Return `frame`, uint8 RGB (H, W, 3), as a JPEG whose longer side is `max_px` at most.

    Keeps the aspect to the nearest pixel and never enlarges; the same frame gives the same bytes. Raises `ChunkRefused`
    for another shape or type, `EncodeFailed` if the codec says no.
    """
    return encode_jpeg(frame, *_fit(frame, max_px))


def scale_picture(frame: NDArray[np.uint8], max_px: int) -> NDArray[np.uint8]:
    """Return `frame`, uint8 RGB (H, W, 3), with a longer side of `max_px` at most. Bounds and errors as above."""
    width, height = _fit(frame, max_px)
    try:
        scaled = VideoReformatter().reformat(
            av.VideoFrame.from_numpy_buffer(np.ascontiguousarray(frame), format="rgb24"),
            width=width,
            height=height,
            format="rgb24",
            interpolation=int(_SCALING),
            threads=1,
        )
    except av.error.FFmpegError as error:
        raise EncodeFailed(f"scaling a picture: {error}", errno=error.errno) from error
    return np.array(scaled.to_ndarray(), dtype=np.uint8)


def encode_jpeg(frame: NDArray[np.uint8], width: int | None = None, height: int | None = None) -> bytes:
    """Return `frame`, uint8 RGB (H, W, 3), as a JPEG of that size in pixels, its own if none is given.

    Raises `EncodeFailed` if the codec says no.
    """
    try:
        return _encode_jpeg(frame, width or frame.shape[1], height or frame.shape[0])
    except av.error.FFmpegError as error:
        raise EncodeFailed(f"encoding a picture: {error}", errno=error.errno) from error


def _fit(frame: NDArray[np.uint8], max_px: int) -> tuple[int, int]:
    """Width and height."""
    if frame.dtype != np.uint8 or frame.ndim != 3 or frame.shape[2] != 3 or 0 in frame.shape:  # noqa: PLR2004 - RGB
        raise ChunkRefused(f"expected uint8 (H, W, 3), got {frame.dtype} {frame.shape}")
    height, width = frame.shape[:2]
    scale = min(Fraction(1), Fraction(max_px, max(width, height)))
    return max(1, round(width * scale)), max(1, round(height * scale))


def _encode_jpeg(frame: NDArray[np.uint8], width: int, height: int) -> bytes:
    picture = VideoReformatter().reformat(
        av.VideoFrame.from_numpy_buffer(np.ascontiguousarray(frame), format="rgb24"),
        width=width,
        height=height,
        format="yuvj420p",
        src_colorspace=Colorspace.ITU601,
        dst_colorspace=Colorspace.ITU601,
        src_color_range=ColorRange.JPEG,
        dst_color_range=ColorRange.JPEG,
        interpolation=int(_SCALING),
        threads=1,
    )
    picture.pts = 0
    encoder = av.CodecContext.create("mjpeg", "w")
    encoder.width, encoder.height = width, height
    encoder.pix_fmt, encoder.color_range = "yuvj420p", ColorRange.JPEG
    encoder.time_base = Fraction(1)
    encoder.flags |= Flags.bitexact | Flags.qscale
    encoder.global_quality = _QUALITY
    encoder.thread_count = 1
    return b"".join(bytes(packet) for packet in (*encoder.encode(picture), *encoder.encode(None)))
