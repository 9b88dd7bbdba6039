"""What one file shall be: size, count, rate, quality and sound, checked before anything is written."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from types import MappingProxyType

from vitascope.contracts.encoding import MAX_CRF, MIN_CRF, PRESETS
from vitascope.encode.failures import InvalidOptions

MAX_SIDE_PX = 16384  # libx264 takes no more
MAX_FRAMES = 100_000
MAX_FPS = 240
MAX_DURATION_S = 86_400  # bounds the silence that fills up short sound
MAX_THREADS = 64
MAX_INT32 = 2**31 - 1  # libavutil's AVRational, and the box fields that hold timescale and frame length
MIN_TIMESCALE = 10_000  # below this libavformat doubles the timescale too: some players mistrust coarse clocks

# The sampling frequencies that an AAC header can name (ISO/IEC 14496-3, table 1.18).
AAC_SAMPLE_RATES = (96000, 88200, 64000, 48000, 44100, 32000, 24000, 22050, 16000, 12000, 11025, 8000, 7350)

# Frame threads change the bits that libx264 writes, so the number is a part of the request and not of the machine:
# a retry on another node must give the same bytes.
DEFAULT_THREADS = 4
DEFAULT_CRF = 18.0
DEFAULT_PRESET = "medium"


@dataclass(frozen=True, kw_only=True, slots=True)
class AudioOptions:
    """Sound of a file: AAC at `sample_rate` hertz, one channel or two."""

    sample_rate: int
    channels: int = 2

    def __post_init__(self) -> None:
        if self.sample_rate not in AAC_SAMPLE_RATES:
            raise InvalidOptions("audio.sample_rate", f"AAC has no {self.sample_rate} Hz; it has {AAC_SAMPLE_RATES}")
        _check_whole("audio.channels", self.channels, 1, 2)


@dataclass(frozen=True, kw_only=True, slots=True)
class EncodeOptions:
    """What one file shall be. Construction raises `InvalidOptions`, which names the field.

    `fps` is exact. `crf` is libx264's, 1 to 51, smaller is better; 0 would be lossless 4:4:4-profile video, which
    players refuse. `codec_options` are libx264 options by libavcodec's names, out of `CODEC_OPTIONS` only.
    `audio` is None for a silent film. `threads` counts frame threads, see `DEFAULT_THREADS`.
    """

    width: int
    height: int
    num_frames: int
    fps: Fraction
    crf: float = DEFAULT_CRF
    preset: str = DEFAULT_PRESET
    codec_options: Mapping[str, str] = field(default_factory=dict)
    audio: AudioOptions | None = None
    threads: int = DEFAULT_THREADS

    def __post_init__(self) -> None:
        for name, side_px in (("width", self.width), ("height", self.height)):
            _check_whole(name, side_px, 2, MAX_SIDE_PX)
            if side_px % 2:
                raise InvalidOptions(name, f"{side_px} is odd, and yuv420p has one chroma sample for two pixels")
        _check_whole("num_frames", self.num_frames, 1, MAX_FRAMES)
        _check_whole("threads", self.threads, 1, MAX_THREADS)
        _check_fps(self.fps)
        if self.duration_s > MAX_DURATION_S:
            raise InvalidOptions("num_frames", f"{self.num_frames} frames at {self.fps} last over {MAX_DURATION_S} s")
        if isinstance(self.crf, bool) or not isinstance(self.crf, int | float) or not MIN_CRF <= self.crf <= MAX_CRF:
            raise InvalidOptions("crf", f"{self.crf!r} is not a number from {MIN_CRF} to {MAX_CRF}")
        if self.preset not in PRESETS:
            raise InvalidOptions("preset", f"{self.preset!r} is none of {', '.join(PRESETS)}")
        checked = {name: _checked_codec_option(name, value) for name, value in self.codec_options.items()}
        object.__setattr__(self, "codec_options", MappingProxyType(checked))  # frozen, the mapping included

    @property
    def duration_s(self) -> Fraction:
        """Length of the picture in seconds, exact."""
        return self.num_frames / self.fps

    @property
    def timescale(self) -> int:
        """Ticks a second of the file's clock: a multiple of the rate's numerator, so that a frame is whole ticks."""
        return compute_timescale(self.fps)

    @property
    def movie_timescale(self) -> int:
        """Ticks a second for lengths in the header: whole for picture and sound wherever 32 bits allow it."""
        rate = 1 if self.audio is None else self.audio.sample_rate
        common = math.lcm(self.timescale, rate)
        return common if common <= MAX_INT32 else self.timescale

    @property
    def audio_samples(self) -> int:
        """Samples a channel that the file shall hold: the picture's length, to the nearest sample; 0 if silent."""
        return 0 if self.audio is None else round(self.duration_s * self.audio.sample_rate)


def compute_timescale(fps: Fraction) -> int:
    """Return the smallest numerator x 2^k that is at least `MIN_TIMESCALE`."""
    timescale = fps.numerator
    while timescale < MIN_TIMESCALE:  # at most 14 turns
        timescale *= 2
    return timescale


def _check_whole(name: str, value: object, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidOptions(name, f"{value!r} is not a whole number")
    if not low <= value <= high:
        raise InvalidOptions(name, f"{value} is not between {low} and {high}")


def _check_fps(fps: object) -> None:
    if not isinstance(fps, Fraction):
        raise InvalidOptions("fps", f"{fps!r} is not a fraction")
    if not 0 < fps <= MAX_FPS:
        raise InvalidOptions("fps", f"{fps} is not above 0 and at most {MAX_FPS}")
    timescale = compute_timescale(fps)
    ticks = timescale // fps.numerator * fps.denominator
    if timescale > MAX_INT32 or ticks > MAX_INT32:
        raise InvalidOptions("fps", f"{fps} needs a clock that 32 bits do not hold")


def _whole_between(low: int, high: int) -> Callable[[str], bool]:
    return lambda text: re.fullmatch(r"\d{1,9}", text) is not None and low <= int(text) <= high


def _number_between(low: float, high: float) -> Callable[[str], bool]:
    def is_inside(text: str) -> bool:
        return re.fullmatch(r"\d{1,3}(\.\d{1,4})?", text) is not None and low <= float(text) <= high

    return is_inside


def _one_of(*words: str) -> Callable[[str], bool]:
    return lambda text: text in words


# What a caller may set, by libavcodec's name. None of these can name a file, change pixel format, size, rate or colour
# tags, or lift a bound; `x264-params` could do all that and stays out.
CODEC_OPTIONS: Mapping[str, Callable[[str], bool]] = MappingProxyType(
    {
        "aq-mode": _whole_between(0, 3),
        "aq-strength": _number_between(0, 3),
        "bf": _whole_between(0, 16),
        "bufsize": _whole_between(1, 999_999_999),  # bits
        "g": _whole_between(1, 1000),  # frames from key frame to key frame
        "maxrate": _whole_between(1, 999_999_999),  # bits a second
        "profile": _one_of("baseline", "main", "high"),
        "rc-lookahead": _whole_between(0, 250),  # frames
        "refs": _whole_between(1, 16),
        "sc_threshold": _whole_between(0, 100),
        "subq": _whole_between(0, 11),
        "trellis": _whole_between(0, 2),
        "tune": _one_of("film", "animation", "grain", "stillimage", "fastdecode", "zerolatency"),
    }
)


def _checked_codec_option(name: str, value: object) -> str:
    is_allowed = CODEC_OPTIONS.get(name)
    if is_allowed is None:
        raise InvalidOptions(f"codec_options.{name}", f"not among {', '.join(CODEC_OPTIONS)}")
    text = str(value)
    if not is_allowed(text):
        raise InvalidOptions(f"codec_options.{name}", f"{text[:40]!r} is not allowed")
    return text
