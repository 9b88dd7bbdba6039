"""Videos become upright, lossless copies in one format; sound becomes WAV."""

import wave
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from media_files import BLUE, RED, png, ramp, sound, video
from vitascope.media.clip import read_video
from vitascope.media.frames import load_frames, load_image, load_sound
from vitascope.media.limits import MediaLimits
from vitascope.media.refusal import Refusal, Why
from vitascope.media.sound import read_sound

LIMITS = MediaLimits()
PLAYLIST = b"#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\nfile:///etc/hostname\n#EXT-X-ENDLIST\n"
CONCAT = b"ffconcat version 1.0\nfile /etc/hostname\n"
SDP = b"v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=video 9 RTP/AVP 96\na=rtpmap:96 H264/90000\n"
DASH = b"<?xml version='1.0'?><MPD xmlns='urn:mpeg:dash:schema:mpd:2011' type='static'></MPD>"


def copy(path: Path, limits: MediaLimits = LIMITS) -> tuple[dict[str, Any], bytes]:
    out = path.with_name("out")
    made = read_video(path, out, limits)
    return made, out.read_bytes()


def decode(path: Path) -> list[np.ndarray]:
    with av.open(str(path)) as container:
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]


def test_what_it_says_of_a_video(tmp_path: Path) -> None:
    """Size, frames, seconds and sound are those that were decoded."""
    made, _ = copy(video(tmp_path / "v", rate=Fraction(24000, 1001), sound_s=0.5))

    assert {
        "media_type": "video/x-matroska",
        "suffix": "mkv",
        "width": 48,
        "height": 32,
        "num_frames": 12,
        "duration_s": pytest.approx(0.5005),
        "has_audio": True,
    } == made


def test_frames_are_those_of_the_source(tmp_path: Path) -> None:
    """To a rounding of the colour conversion (and apart from the colours' edge), every one, in order, at their rate."""
    path = video(tmp_path / "v", rate=Fraction(24000, 1001))
    frames, rate = load_frames(copy(path)[1])

    assert Fraction(24000, 1001) == rate
    for expected, frame in zip(decode(path), frames, strict=True):
        difference = np.abs(expected.astype(int) - np.asarray(frame))
        assert 3 >= np.delete(difference, range(20, 28), axis=1).max()


def test_no_more_frames_than_asked_for(tmp_path: Path) -> None:
    """The first ones."""
    content = copy(video(tmp_path / "v"))[1]

    assert [np.asarray(f).tobytes() for f in load_frames(content)[0][:5]] == [
        np.asarray(f).tobytes() for f in load_frames(content, 5)[0]
    ]


@pytest.mark.parametrize(("rotation", "size"), [(90, (32, 48)), (-90, (32, 48)), (180, (48, 32)), (0, (48, 32))])
def test_turned_upright(rotation: int, size: tuple[int, int], tmp_path: Path) -> None:
    """As a player would show it: FFmpeg counts the turn against the clock, to be made when it is shown."""
    made, content = copy(video(tmp_path / "v", rotation=rotation))
    frame = load_frames(content)[0][-1]
    width, height = frame.size
    red_at = {0: (4, 4), 90: (4, height - 4), -90: (width - 4, 4), 180: (width - 4, height - 4)}[rotation]
    blue_at = (width - red_at[0], height - red_at[1])

    assert size == (made["width"], made["height"]) == frame.size
    assert (0, 2) == tuple(int(np.argmax(frame.getpixel(at))) for at in (red_at, blue_at))
    assert (RED, BLUE) == ((255, 0, 0), (0, 0, 255))  # channel 0 is the left half of the source, channel 2 its right


def test_sound_comes_along(tmp_path: Path) -> None:
    """As stereo at its own rate, as loud as it was."""
    samples, rate_hz = load_sound(copy(video(tmp_path / "v", sound_s=0.5))[1])

    assert 44_100 == rate_hz
    assert samples.shape[0] == 2
    assert 0.5 <= samples.shape[1] / rate_hz < 0.6
    assert 0.6 < np.abs(samples).max() <= 1.0


def test_equal_sources_give_equal_files(tmp_path: Path) -> None:
    """No time, no random id: two who store it at once store the same."""
    path = video(tmp_path / "v", sound_s=0.2)

    assert copy(path)[1] == copy(path)[1]


@pytest.mark.parametrize("name", ["libvpx-vp9", "libx265", "mpeg4"])
def test_usual_codecs(name: str, tmp_path: Path) -> None:
    """What people have."""
    container = "webm" if name == "libvpx-vp9" else "mp4"
    options = {"x265-params": "pools=none:frame-threads=1:log-level=none"} if name == "libx265" else {}
    path = video(tmp_path / "v", ramp(12, 64, 64), codec=name, format_name=container, options=options)

    assert 12 == copy(path)[0]["num_frames"]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"not a video", id="text"),
        pytest.param(PLAYLIST, id="hls playlist"),
        pytest.param(CONCAT, id="concat script"),
        pytest.param(SDP, id="session description"),
        pytest.param(DASH, id="dash manifest"),
        pytest.param(b"PK\x03\x04" + b"\0" * 500, id="zip"),
        pytest.param(png(), id="image"),
        pytest.param(b"\0\0\0\x1cftypisom\0\0\2\0isomiso2mp41" + b"\xff" * 2000, id="mp4 of rubbish"),
    ],
)
def test_no_video(content: bytes, tmp_path: Path) -> None:
    """Nothing that only points to media, and nothing broken, is taken."""
    (tmp_path / "v").write_bytes(content)
    with pytest.raises(Refusal) as caught:
        copy(tmp_path / "v")

    assert Why.INVALID == caught.value.why


def test_avi_is_not_taken(tmp_path: Path) -> None:
    """The list of formats holds whatever the codec in them is."""
    with pytest.raises(Refusal):
        copy(video(tmp_path / "v", format_name="avi"))


def test_codec_that_is_not_taken(tmp_path: Path) -> None:
    """Likewise the list of codecs, whatever the container is."""
    with pytest.raises(Refusal, match="codec"):
        copy(video(tmp_path / "v", codec="mpeg2video", format_name="matroska"))


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_cut_off(share: float, tmp_path: Path) -> None:
    """A file that ends early is refused, also if its index came first."""
    noise = list(np.random.default_rng(1).integers(0, 256, (30, 32, 48, 3), np.uint8))
    whole = video(tmp_path / "v", noise).read_bytes()
    at = whole.index(b"moov") - 4
    index = whole[at : at + int.from_bytes(whole[at : at + 4])]
    (tmp_path / "v").write_bytes(whole[: int(at * share)])
    with pytest.raises(Refusal):
        copy(tmp_path / "v")
    # the same, with the index before the pictures, as streaming servers have it
    (tmp_path / "w").write_bytes(_index_first(whole, at, index)[: len(index) + int(at * share)])
    with pytest.raises(Refusal):
        copy(tmp_path / "w")


def test_too_many_frames(tmp_path: Path) -> None:
    """One more than the limit."""
    assert 12 == copy(video(tmp_path / "v"), MediaLimits(max_frames=12))[0]["num_frames"]
    with pytest.raises(Refusal, match="limit of 11") as caught:
        copy(video(tmp_path / "v"), MediaLimits(max_frames=11))
    assert Why.TOO_LARGE == caught.value.why


def test_too_many_pixels(tmp_path: Path) -> None:
    """By the size that the file declares."""
    with pytest.raises(Refusal, match="48x32") as caught:
        copy(video(tmp_path / "v"), MediaLimits(max_pixels=1000))
    assert Why.TOO_LARGE == caught.value.why


@pytest.mark.parametrize(("codec", "container"), [("pcm_s16le", "wav"), ("flac", "flac"), ("libmp3lame", "mp3")])
def test_sound_alone(codec: str, container: str, tmp_path: Path) -> None:
    """As WAV of its own rate."""
    made = read_sound(sound(tmp_path / "s", codec=codec, format_name=container), tmp_path / "out", LIMITS)
    samples, rate_hz = load_sound((tmp_path / "out").read_bytes())

    assert ("audio/wav", "wav", 16_000) == (made["media_type"], made["suffix"], rate_hz)
    assert pytest.approx(made["duration_s"]) == samples.shape[1] / rate_hz
    assert 0.5 <= made["duration_s"] < 0.7


def test_sound_of_a_video(tmp_path: Path) -> None:
    """Taken out of it."""
    assert 0.5 <= read_sound(video(tmp_path / "v", sound_s=0.5), tmp_path / "out", LIMITS)["duration_s"] < 0.6


def test_sound_that_is_none(tmp_path: Path) -> None:
    """A silent film, and an empty track."""
    with wave.open(str(tmp_path / "s"), "wb") as empty:
        empty.setparams((1, 2, 16_000, 0, "NONE", ""))
    for path in (video(tmp_path / "v"), tmp_path / "s"):
        with pytest.raises(Refusal):
            read_sound(path, tmp_path / "out", LIMITS)


def test_sound_that_is_too_long(tmp_path: Path) -> None:
    """As soon as it is."""
    with pytest.raises(Refusal, match=r"0\.2 s") as caught:
        read_sound(sound(tmp_path / "s"), tmp_path / "out", MediaLimits(max_duration_s=0.2))
    assert Why.TOO_LARGE == caught.value.why


def test_stored_image_is_read_back() -> None:
    """Pixel by pixel."""
    assert RED == load_image(png()).getpixel((0, 0))


def _index_first(whole: bytes, at: int, index: bytes) -> bytes:
    """The file with its index moved before the pictures, and the places in it moved with them."""
    mdat = whole.index(b"mdat") - 4
    moved = bytearray(index)
    table = moved.index(b"stco") + 4
    for entry in range(int.from_bytes(moved[table + 4 : table + 8])):
        place = table + 8 + 4 * entry
        moved[place : place + 4] = (int.from_bytes(moved[place : place + 4]) + len(index)).to_bytes(4)
    return whole[:mdat] + bytes(moved) + whole[mdat:at]
