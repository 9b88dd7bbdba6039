"""Sound in step with the picture, exactly as long, whenever it arrives."""

from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from numpy.typing import NDArray

from unit.encode.films import make_options, make_pixels, make_tone, write_film
from vitascope.encode.codec import Mp4Writer
from vitascope.encode.failures import AudioRefused
from vitascope.encode.options import AAC_SAMPLE_RATES, AudioOptions, EncodeOptions

RATE = 48000


def sound_options(**changes: object) -> EncodeOptions:
    return make_options(num_frames=25, fps=Fraction(24000, 1001), audio=AudioOptions(sample_rate=RATE), **changes)


def decode_sound(path: Path) -> NDArray[np.float32]:
    with av.open(str(path)) as container:
        return np.concatenate([frame.to_ndarray() for frame in container.decode(audio=0)], axis=1)


def write_with_sound(path: Path, options: EncodeOptions, samples: NDArray[np.float32]) -> Path:
    with Mp4Writer(path, options) as writer:
        writer.write_frames(make_pixels(options))
        writer.write_audio(samples, RATE)
    return path


@pytest.mark.parametrize("channels", [1, 2], ids=["mono", "stereo"])
@pytest.mark.parametrize("rate", AAC_SAMPLE_RATES)
def test_track_is_as_long_as_the_picture_at_every_rate(tmp_path: Path, rate: int, channels: int) -> None:
    """Both tracks start at zero, and the sound's length is the picture's to the sample."""
    options = make_options(
        num_frames=25, fps=Fraction(24000, 1001), audio=AudioOptions(sample_rate=rate, channels=channels)
    )
    with av.open(str(write_film(tmp_path / "film.mp4", options))) as container:
        picture, sound = container.streams.video[0], container.streams.audio[0]
        assert (0, 0) == (picture.start_time, sound.start_time)
        assert Fraction(options.audio_samples, rate) == sound.duration * sound.time_base
        assert (rate, channels) == (sound.codec_context.sample_rate, sound.codec_context.channels)


@pytest.mark.parametrize("spare", [-20_000, 0, 90_000], ids=["short", "exact", "long"])
def test_short_sound_is_filled_up_and_long_sound_cut(tmp_path: Path, spare: int) -> None:
    """The tone is heard as far as it goes, silence after it, nothing after the picture's end."""
    options = sound_options()
    tone = make_tone(options.audio_samples + spare, rate=RATE)
    path = write_with_sound(tmp_path / "film.mp4", options, tone)
    with av.open(str(path)) as container:
        assert 50050 == container.streams.audio[0].duration
    heard = np.abs(decode_sound(path)).reshape(2, -1)
    assert heard[:, 1000:28_000].max() > 0.4
    assert (heard[:, 33_000:49_000].max() < 0.01) == (spare < 0)


def test_sound_is_in_step_to_the_sample(tmp_path: Path) -> None:
    """A click in the middle is found where it was put: the encoder's own delay is taken out."""
    options = sound_options()
    samples = np.zeros((2, options.audio_samples), np.float32)
    samples[:, 24_000] = 0.9
    decoded = decode_sound(write_with_sound(tmp_path / "film.mp4", options, samples))
    assert abs(int(np.abs(decoded[0]).argmax()) - 24_000) <= 1


def test_sound_louder_than_full_scale_is_clipped(tmp_path: Path) -> None:
    """A model's overshoot does not blow up the codec."""
    options = sound_options()
    decoded = decode_sound(write_with_sound(tmp_path / "film.mp4", options, 2000 * make_tone(50050, rate=RATE)))
    assert 0.9 < np.abs(decoded).max() < 1.6


@pytest.mark.parametrize(
    ("samples", "rate"),
    [
        pytest.param(np.zeros((1, 100), np.float32), RATE, id="mono for stereo"),
        pytest.param(np.zeros((2, 100), np.float64), RATE, id="doubles"),
        pytest.param(np.zeros(100, np.float32), RATE, id="one axis"),
        pytest.param(np.zeros((2, 100), np.float32), 44100, id="another rate"),
        pytest.param(np.full((2, 100), np.nan, np.float32), RATE, id="nan"),
    ],
)
def test_sound_of_another_kind_is_refused(tmp_path: Path, samples: NDArray[np.float32], rate: int) -> None:
    """Nothing is mixed or resampled behind the caller's back."""
    with Mp4Writer(tmp_path / "film.mp4", sound_options()) as writer:
        with pytest.raises(AudioRefused):
            writer.write_audio(samples, rate)
        writer.abort()


def test_sound_for_a_silent_film_is_refused(tmp_path: Path) -> None:
    """It was not promised, so the file has no track for it."""
    with Mp4Writer(tmp_path / "film.mp4", make_options()) as writer:
        with pytest.raises(AudioRefused):
            writer.write_audio(make_tone(10, rate=RATE), RATE)
        writer.abort()


def test_promised_sound_that_never_came_is_an_error(tmp_path: Path) -> None:
    """A film that should sound is not completed in silence."""
    options = sound_options()
    with pytest.raises(AudioRefused), Mp4Writer(tmp_path / "film.mp4", options) as writer:
        writer.write_frames(make_pixels(options))
    assert [] == list(tmp_path.iterdir())
