"""Options refuse what cannot become a file, by name, before anything is written."""

from fractions import Fraction
from typing import Any

import av
import pytest

from unit.encode.films import make_options
from vitascope.encode.failures import InvalidOptions
from vitascope.encode.options import CODEC_OPTIONS, PRESETS, AudioOptions, compute_timescale


@pytest.mark.parametrize(
    ("field", "value"),
    [
        pytest.param("width", 33, id="odd width"),
        pytest.param("height", 31, id="odd height"),
        pytest.param("width", 0, id="no width"),
        pytest.param("width", 2**31, id="huge width"),
        pytest.param("height", 64.0, id="float height"),
        pytest.param("width", True, id="bool width"),
        pytest.param("num_frames", 0, id="no frames"),
        pytest.param("num_frames", 10**7, id="too many frames"),
        pytest.param("fps", Fraction(0), id="fps 0"),
        pytest.param("fps", Fraction(-1), id="fps negative"),
        pytest.param("fps", Fraction(10**9), id="fps huge"),
        pytest.param("fps", Fraction(241), id="fps above 240"),
        pytest.param("fps", Fraction(2**31, 2**26 + 1), id="numerator beyond int32"),
        pytest.param("fps", Fraction(1, 2**20), id="frame length beyond int32"),
        pytest.param("fps", 24.0, id="fps float"),
        pytest.param("fps", float("nan"), id="fps nan"),
        pytest.param("crf", 0, id="lossless"),
        pytest.param("crf", 52, id="crf above 51"),
        pytest.param("crf", float("nan"), id="crf nan"),
        pytest.param("crf", "18", id="crf text"),
        pytest.param("preset", "placebo", id="unknown preset"),
        pytest.param("threads", 0, id="no threads"),
        pytest.param("threads", 65, id="too many threads"),
    ],
)
def test_field_out_of_bounds_is_refused_by_name(field: str, value: object) -> None:
    """The error names the field."""
    with pytest.raises(InvalidOptions) as caught:
        make_options(**{field: value})
    assert field == caught.value.field


def test_film_longer_than_a_day_is_refused() -> None:
    """Frames and rate may each be fine and still last for ever."""
    with pytest.raises(InvalidOptions) as caught:
        make_options(num_frames=100_000, fps=Fraction(1))
    assert caught.value.field == "num_frames"


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        pytest.param({"sample_rate": 44000}, "audio.sample_rate", id="rate that AAC has not"),
        pytest.param({"sample_rate": 48000, "channels": 3}, "audio.channels", id="three channels"),
    ],
)
def test_sound_that_aac_cannot_carry_is_refused(changes: dict[str, int], field: str) -> None:
    """The error names the field."""
    with pytest.raises(InvalidOptions) as caught:
        AudioOptions(**changes)
    assert field == caught.value.field


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("x264-params", "stats=/etc/passwd", id="pass-through"),
        pytest.param("passlogfile", "x", id="file name"),
        pytest.param("pix_fmt", "yuv444p", id="pixel format"),
        pytest.param("crf", "10", id="field of its own"),
        pytest.param("bf", "17", id="above bound"),
        pytest.param("bf", "-1", id="negative"),
        pytest.param("bf", "3:stats=x", id="smuggled"),
        pytest.param("bf", "3\n", id="line end"),
        pytest.param("aq-strength", "nan", id="nan"),
        pytest.param("tune", "psnr", id="unknown word"),
        pytest.param("profile", "high444", id="profile that players refuse"),
    ],
)
def test_codec_option_outside_the_list_is_refused(name: str, value: str) -> None:
    """Neither unknown names nor values out of bounds reach libx264."""
    with pytest.raises(InvalidOptions) as caught:
        make_options(codec_options={name: value})
    assert f"codec_options.{name}" == caught.value.field


def test_codec_options_are_frozen_with_the_rest() -> None:
    """A caller's later change to its own mapping changes nothing here."""
    given: dict[str, Any] = {"bf": 2}
    options = make_options(codec_options=given)
    given["bf"] = 99
    assert {"bf": "2"} == dict(options.codec_options)


def test_every_listed_option_and_preset_is_known_to_libx264() -> None:
    """A name that libavcodec does not know would be ignored in silence."""
    supported = av.CodecContext.create("libx264", "w").supported_options
    known = {option.name for option in (*supported.generic, *supported.private)}
    assert set() == set(CODEC_OPTIONS) - known
    for preset in PRESETS:
        assert preset == make_options(preset=preset).preset


@pytest.mark.parametrize(
    ("fps", "timescale"),
    [
        pytest.param(Fraction(24000, 1001), 24000, id="23.976"),
        pytest.param(Fraction(30000, 1001), 30000, id="29.97"),
        pytest.param(Fraction(16), 16384, id="16"),
        pytest.param(Fraction(2997, 125), 11988, id="2997/125"),
        pytest.param(Fraction(240), 15360, id="240"),
    ],
)
def test_timescale_holds_a_frame_in_whole_ticks(fps: Fraction, timescale: int) -> None:
    """The clock is the numerator, doubled until it is fine enough."""
    assert timescale == compute_timescale(fps)
    assert (timescale / fps).denominator == 1


def test_sound_is_as_long_as_the_picture_to_the_nearest_sample() -> None:
    """25 frames at 24000/1001 are 50050 samples at 48 kHz; a silent film has none."""
    audio = AudioOptions(sample_rate=48000)
    assert make_options(num_frames=25, fps=Fraction(24000, 1001), audio=audio).audio_samples == 50050
    assert make_options().audio_samples == 0
