"""A video: every frame decoded, turned upright, and written again without loss, with its sound beside it."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import av

from vitascope.media.container import AUDIO_CODECS, EXACT, VIDEO_CODECS, check_codec, open_container
from vitascope.media.limits import MediaLimits
from vitascope.media.refusal import Refusal, Why, check_pixels
from vitascope.media.rewrite import Rewrite

MEDIA_TYPE = "video/x-matroska"
SUFFIX = "mkv"
MAX_RATE_DENOMINATOR = 10_000
MIN_RATE, MAX_RATE = Fraction(1), Fraction(240)
USUAL_RATE = Fraction(24)
LYING_FACTOR = 2
"""A file that declares more than twice the frames that it holds is cut off."""


def read_video(path: Path, out: Path, limits: MediaLimits) -> dict[str, Any]:
    """Write the video to `out`; its upright size in pixels, its frames, its seconds, and whether it has sound.

    Raises:
        Refusal: it is no video, is damaged or cut off, or is too large or too long.
    """
    with open_container(path) as source, av.open(str(out), "w", format="matroska", options=EXACT) as sink:
        picture, sound = _choose_streams(source, limits)
        rewrite = Rewrite(sink, choose_rate(picture), sound, limits)
        for packet in source.demux([picture] if sound is None else [picture, sound]):
            if packet.is_corrupt:
                raise Refusal(Why.INVALID, "It is damaged or cut off.")
            for frame in packet.decode():
                if packet.stream is picture:
                    rewrite.take_picture(frame)
                else:
                    rewrite.take_sound(frame)
        rewrite.finish()
        if picture.frames > LYING_FACTOR * rewrite.num_frames:
            raise Refusal(Why.INVALID, f"It declares {picture.frames} frames and holds {rewrite.num_frames}.")
    width, height = rewrite.size
    return {
        "media_type": MEDIA_TYPE,
        "suffix": SUFFIX,
        "width": width,
        "height": height,
        "num_frames": rewrite.num_frames,
        "duration_s": float(rewrite.num_frames / rewrite.rate),
        "has_audio": sound is not None,
    }


def choose_rate(stream: Any) -> Fraction:
    """Frames a second: what the file says, within reason."""
    rate = Fraction(stream.average_rate or stream.guessed_rate or USUAL_RATE).limit_denominator(MAX_RATE_DENOMINATOR)
    return min(max(rate, MIN_RATE), MAX_RATE)


def _choose_streams(source: Any, limits: MediaLimits) -> tuple[Any, Any]:
    if not source.streams.video:
        raise Refusal(Why.INVALID, "It has no picture.")
    picture = source.streams.video[0]
    check_codec(picture, VIDEO_CODECS)
    check_pixels(picture.codec_context.width, picture.codec_context.height, limits.max_pixels)
    sound = source.streams.audio[0] if source.streams.audio else None
    if sound is not None:
        check_codec(sound, AUDIO_CODECS)
    return picture, sound
