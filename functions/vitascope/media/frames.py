"""What the child made, read back: trusted, since it was written by us, and in the process that needs it."""

import io
from fractions import Fraction
from typing import Any

import av
import numpy as np
import PIL.Image
from numpy.typing import NDArray


def load_image(content: bytes) -> PIL.Image.Image:
    """A stored image, RGB."""
    with PIL.Image.open(io.BytesIO(content)) as image:
        return image.convert("RGB")


def load_frames(content: bytes, max_frames: int | None = None) -> tuple[list[PIL.Image.Image], Fraction]:
    """The first frames of a stored video, RGB, and its frames a second."""
    frames: list[PIL.Image.Image] = []
    with av.open(io.BytesIO(content)) as container:
        stream: Any = container.streams.video[0]
        for frame in container.decode(stream):
            if max_frames is not None and len(frames) >= max_frames:
                break
            frames.append(frame.to_image())
        return frames, Fraction(stream.average_rate)


def load_sound(content: bytes) -> tuple[NDArray[np.float32], int]:
    """Stored sound, or that of a stored video: float32 (2, samples) from -1 to 1, and its rate in Hz."""
    with av.open(io.BytesIO(content)) as container:
        stream: Any = container.streams.audio[0]
        rate_hz = int(stream.rate)
        resampler = av.AudioResampler(format="fltp", layout="stereo", rate=rate_hz)
        decoded = [*container.decode(stream), None]  # None flushes
        pieces = [piece.to_ndarray() for frame in decoded for piece in resampler.resample(frame)]
    return np.ascontiguousarray(np.concatenate(pieces, axis=1), dtype=np.float32), rate_hz
