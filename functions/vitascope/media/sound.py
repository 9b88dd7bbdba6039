"""Sound, of its own or of a video: decoded, and written as a WAV file of 16-bit stereo."""

from pathlib import Path
from typing import Any

import av

from vitascope.media.container import AUDIO_CODECS, EXACT, check_codec, open_container
from vitascope.media.limits import MediaLimits
from vitascope.media.refusal import Refusal, Why
from vitascope.media.track import SoundTrack


def read_sound(path: Path, out: Path, limits: MediaLimits) -> dict[str, Any]:
    """Write the sound to `out`; its seconds.

    Raises:
        Refusal: it has no sound, is damaged or cut off, or is too long.
    """
    with open_container(path) as source, av.open(str(out), "w", format="wav", options=EXACT) as sink:
        if not source.streams.audio:
            raise Refusal(Why.INVALID, "It has no sound.")
        stream = source.streams.audio[0]
        check_codec(stream, AUDIO_CODECS)
        track = SoundTrack(stream.rate, limits.max_duration_s)
        track.open(sink)
        for packet in source.demux(stream):
            if packet.is_corrupt:
                raise Refusal(Why.INVALID, "It is damaged or cut off.")
            for frame in packet.decode():
                for piece in track.convert(frame):
                    sink.mux(track.stream.encode(piece))
        for piece in track.convert(None):
            sink.mux(track.stream.encode(piece))
        sink.mux(track.stream.encode(None))
    if not track.num_samples:
        raise Refusal(Why.INVALID, "Its sound is empty.")
    return {"media_type": "audio/wav", "suffix": "wav", "duration_s": track.duration_s}
