"""One AAC track, exactly as long as the picture: longer sound is cut, shorter is filled up with silence."""

from collections.abc import Iterator
from fractions import Fraction

import av
import numpy as np
from av.codec.context import Flags
from numpy.typing import NDArray

from vitascope.encode.failures import AudioRefused
from vitascope.encode.options import AudioOptions

BIT_RATE_PER_CHANNEL = 96_000  # bits a second
MAX_BITS_PER_SAMPLE = 6  # an AAC frame of 1024 samples holds 6144 bits a channel at most
_SLICE_SAMPLES = 65_536  # what goes through the encoder at once, so that a long track needs no second copy of itself


class AudioTrack:
    """Encodes planar float32 sound into the packets of one track of `container`."""

    def __init__(self, container: av.container.OutputContainer, options: AudioOptions, total_samples: int) -> None:
        self._options = options
        self._layout = "mono" if options.channels == 1 else "stereo"
        self._total_samples = total_samples
        self._sent_samples = 0
        bits_per_channel = min(BIT_RATE_PER_CHANNEL, MAX_BITS_PER_SAMPLE * options.sample_rate)
        self._stream = container.add_stream(
            "aac",
            rate=options.sample_rate,
            layout=self._layout,
            bit_rate=bits_per_channel * options.channels,
        )
        self._stream.codec_context.flags |= Flags.bitexact

    @property
    def has_sound(self) -> bool:
        """Whether any sample has arrived."""
        return self._sent_samples > 0

    def encode(self, samples: NDArray[np.float32], rate: int) -> Iterator[av.Packet]:
        """Check `samples`, float32 (channels, n) at `rate` hertz, and yield the packets they complete.

        Values beyond -1 and 1 are clipped, as a player would. What lies past the end of the picture is dropped.
        """
        _check_sound(samples, rate, self._options)
        room = self._total_samples - self._sent_samples
        yield from self._encode_slices(samples[:, :room])

    def finish(self) -> Iterator[av.Packet]:
        """Fill up with silence to the end of the picture and yield all packets that are left."""
        while self._sent_samples < self._total_samples:
            missing = min(_SLICE_SAMPLES, self._total_samples - self._sent_samples)
            yield from self._encode_slices(np.zeros((self._options.channels, missing), np.float32))
        yield from self._stream.encode(None)

    def _encode_slices(self, samples: NDArray[np.float32]) -> Iterator[av.Packet]:
        for start in range(0, samples.shape[1], _SLICE_SAMPLES):
            part = np.clip(samples[:, start : start + _SLICE_SAMPLES], -1.0, 1.0)
            frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(part), format="fltp", layout=self._layout)
            frame.sample_rate = self._options.sample_rate
            frame.time_base = Fraction(1, self._options.sample_rate)
            frame.pts = self._sent_samples
            self._sent_samples += part.shape[1]
            yield from self._stream.encode(frame)


def _check_sound(samples: NDArray[np.float32], rate: int, options: AudioOptions) -> None:
    if samples.dtype != np.float32 or samples.ndim != 2 or samples.shape[0] != options.channels:  # noqa: PLR2004 - axes
        raise AudioRefused(f"expected float32 ({options.channels}, n), got {samples.dtype} {samples.shape}")
    if rate != options.sample_rate:
        raise AudioRefused(f"expected {options.sample_rate} Hz, got {rate} Hz")
    if not np.isfinite(samples).all():
        raise AudioRefused("samples are not all finite")
