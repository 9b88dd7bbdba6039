"""Sound on its way to PCM."""

from fractions import Fraction
from typing import Any

import av

from vitascope.media.refusal import Refusal, Why

CODEC = "pcm_s16le"
LAYOUT = "stereo"
MIN_RATE_HZ, MAX_RATE_HZ = 8_000, 192_000


class SoundTrack:
    """Converts decoded sound to 16-bit stereo of the same rate, counted from zero, and has the stream that takes it."""

    def __init__(self, rate_hz: int, max_duration_s: float) -> None:
        if not MIN_RATE_HZ <= rate_hz <= MAX_RATE_HZ:
            raise Refusal(Why.INVALID, f"Its sample rate is not between {MIN_RATE_HZ} and {MAX_RATE_HZ} Hz.")
        self.rate_hz, self.num_samples = rate_hz, 0
        self.stream: Any = None
        self._max_duration_s = max_duration_s
        self._resampler = av.AudioResampler(format="s16", layout=LAYOUT, rate=rate_hz)

    @property
    def duration_s(self) -> float:
        """Seconds converted so far."""
        return self.num_samples / self.rate_hz

    def open(self, sink: Any) -> None:
        """Make the stream in a container."""
        self.stream = sink.add_stream(CODEC, rate=self.rate_hz, layout=LAYOUT)

    def convert(self, frame: Any) -> list[Any]:
        """The sound of a frame, ready to be encoded; None flushes.

        Raises:
            Refusal: with it the sound is longer than it may be.
        """
        pieces = self._resampler.resample(frame)
        for piece in pieces:
            piece.pts, piece.time_base = self.num_samples, Fraction(1, self.rate_hz)
            self.num_samples += piece.samples
        if self.duration_s > self._max_duration_s:
            raise Refusal(Why.TOO_LARGE, f"It is longer than the limit of {self._max_duration_s:g} s.")
        return list(pieces)
