"""Verification passes what the writer makes and names what is wrong with anything else."""

import hashlib
import random
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from unit.encode.films import make_options, write_film, write_foreign_film
from vitascope.encode.colour import BT709_LIMITED
from vitascope.encode.failures import VerificationFailed
from vitascope.encode.options import AudioOptions
from vitascope.encode.verify import VerifiedVideo, verify_mp4

SOUND = AudioOptions(sample_rate=24000)
BT709 = {"colorspace": 1, "color_primaries": 1, "color_trc": 1, "color_range": 1}


def complaints_about(path: Path, **changes: Any) -> str:
    with pytest.raises(VerificationFailed) as caught:
        verify_mp4(path, make_options(**changes))
    assert caught.value.differences
    return str(caught.value)


@pytest.mark.parametrize("audio", [None, SOUND], ids=["silent", "with sound"])
def test_good_film_is_described_exactly(tmp_path: Path, audio: AudioOptions | None) -> None:
    """Every fact is read from the file."""
    options = make_options(num_frames=25, fps=Fraction(30000, 1001), audio=audio)
    path = write_film(tmp_path / "film.mp4", options)
    content = path.read_bytes()
    expected = VerifiedVideo(
        frames=25,
        duration_s=Fraction(1001, 1200),
        width=64,
        height=48,
        fps=Fraction(30000, 1001),
        size_bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        pixel_format="yuv420p",
        colour=BT709_LIMITED,
        is_index_first=True,
        audio_duration_s=None if audio is None else Fraction(20020, 24000),
    )
    assert expected == verify_mp4(path, options)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        pytest.param({"num_frames": 10}, "frames is 9, not 10", id="fewer frames"),
        pytest.param({"num_frames": 8}, "frames is 9, not 8", id="more frames"),
        pytest.param({"fps": Fraction(16000, 1001)}, "fps is 16, not 16000/1001", id="rate"),
        pytest.param({"width": 66}, "size is (64, 48), not (66, 48)", id="width"),
        pytest.param({"audio": SOUND}, "tracks are ['h264'], not ['aac', 'h264']", id="sound missing"),
    ],
)
def test_film_that_differs_from_the_options_is_named(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    """What was found and what was asked for, in one sentence."""
    path = write_film(tmp_path / "film.mp4", make_options())
    assert words in complaints_about(path, **changes)


@pytest.mark.parametrize(
    ("audio", "words"),
    [
        pytest.param(None, "tracks are ['aac', 'h264'], not ['h264']", id="not asked for"),
        pytest.param(replace(SOUND, channels=1), "sound is (24000, 2), not (24000, 1)", id="channels"),
        pytest.param(replace(SOUND, sample_rate=48000), "sound is (24000, 2), not (48000, 2)", id="rate"),
    ],
)
def test_sound_that_differs_is_named(tmp_path: Path, audio: AudioOptions | None, words: str) -> None:
    """Track, layout and length of the sound are held against the options too."""
    path = write_film(tmp_path / "film.mp4", make_options(audio=SOUND))
    assert words in complaints_about(path, audio=audio)


def test_foreign_film_with_everything_right_passes(tmp_path: Path) -> None:
    """Guards the cases below: each differs from this one in the one thing it names."""
    path = write_foreign_film(tmp_path / "film.mp4", make_options())
    assert verify_mp4(path, make_options()).frames == 9


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        pytest.param({"movflags": "+write_colr"}, "index (moov) comes after", id="index at the end"),
        pytest.param({"movflags": "+frag_keyframe"}, "", id="fragments"),
        pytest.param({"brand": "isom"}, "brand is isom, not mp42", id="brand"),
        pytest.param({"tags": {}}, "colour is", id="untagged"),
        pytest.param({"tags": {**BT709, "colorspace": 6}}, "colour is", id="tagged BT.601"),
        pytest.param({"tags": {**BT709, "color_range": 2}}, "colour_range=2", id="full range"),
        pytest.param({"pix_fmt": "yuv444p"}, "pixel format is yuv444p, not yuv420p", id="4:4:4"),
        pytest.param({"codec": "mpeg4"}, "tracks are ['mpeg4'], not ['h264']", id="another codec"),
        pytest.param({"skip_pts": 4}, "frame 4 is shown at tick 5120, not 4096", id="gap in time"),
    ],
)
def test_film_made_otherwise_is_named(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    """Whatever players stumble over is found."""
    path = write_foreign_film(tmp_path / "film.mp4", make_options(), **changes)
    assert words in complaints_about(path)


@pytest.mark.parametrize("kept", [0, 5, 40, 900, -1], ids=["empty", "stub", "header", "in the index", "last byte gone"])
def test_cut_file_is_found(tmp_path: Path, kept: int) -> None:
    """A file that lost its end anywhere does not pass."""
    path = write_film(tmp_path / "film.mp4", make_options())
    path.write_bytes(path.read_bytes()[:kept])
    complaints_about(path)


def test_file_with_bytes_added_is_found(tmp_path: Path) -> None:
    """Boxes fill a finished file exactly."""
    path = write_film(tmp_path / "film.mp4", make_options())
    path.write_bytes(path.read_bytes() + b"\0\0\0")
    assert "stray bytes" in complaints_about(path)


@pytest.mark.parametrize("part", [0.2, 0.5, 0.8], ids=str)
def test_damaged_picture_is_found(tmp_path: Path, part: float) -> None:
    """A stretch of noise among the pictures is an error, not a grey block."""
    options = make_options(width=320, height=240, num_frames=30, crf=10)
    path = write_film(tmp_path / "film.mp4", options)
    content = bytearray(path.read_bytes())
    start = content.index(b"mdat")
    at = start + int((len(content) - start) * part)
    content[at : at + 400] = random.Random(1).randbytes(400)
    path.write_bytes(content)
    with pytest.raises(VerificationFailed):
        verify_mp4(path, options)


def test_file_that_is_no_film_is_found(tmp_path: Path) -> None:
    """Text under the right name."""
    path = tmp_path / "film.mp4"
    path.write_text("not a film at all, but long enough to look like one box after another")
    complaints_about(path)


def test_all_differences_are_named_together(tmp_path: Path) -> None:
    """One look shows all that is wrong."""
    path = write_foreign_film(tmp_path / "film.mp4", make_options(), movflags="+write_colr", tags={})
    with pytest.raises(VerificationFailed) as caught:
        verify_mp4(path, make_options(num_frames=10))
    found = [difference.split(" ", 1)[0] for difference in caught.value.differences]
    assert ["index", "frames", "duration_s", "colour"] == found
