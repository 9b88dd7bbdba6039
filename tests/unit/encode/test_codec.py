"""Files decoded back: exact count, size, rate and bytes; nothing is left of what did not finish."""

import gc
import resource
import struct
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unit.encode.films import decode_rgb_bt709, make_options, make_pixels, make_tone, write_film
from vitascope.encode.boxes import read_boxes, read_brand
from vitascope.encode.codec import Mp4Writer
from vitascope.encode.failures import ChunkRefused, EncodeFailed, FrameCountMismatch
from vitascope.encode.options import AudioOptions

RATES = [
    Fraction(24000, 1001),
    Fraction(30000, 1001),
    Fraction(60000, 1001),
    Fraction(2997, 125),
    Fraction(16),
    Fraction(25),
    Fraction(240),
    Fraction(1, 3),
    Fraction(2**31 - 1, 2**27),
]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    width=st.integers(1, 80).map(lambda half: 2 * half),
    height=st.integers(1, 80).map(lambda half: 2 * half),
    num_frames=st.integers(1, 70),
    fps=st.sampled_from(RATES) | st.fractions(1, 240, max_denominator=2000),
)
def test_any_shape_and_rate_comes_back_exactly(
    tmp_path: Path,
    width: int,
    height: int,
    num_frames: int,
    fps: Fraction,
) -> None:
    """Count, size, rate and length of the file are those asked for, and every frame is where it should be."""
    options = make_options(width=width, height=height, num_frames=num_frames, fps=fps, preset="ultrafast")
    path = write_film(tmp_path / "film.mp4", options)
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        assert (fps, num_frames / fps) == (stream.average_rate, stream.duration * stream.time_base)
        frames = list(container.decode(stream))
        assert [index / fps for index in range(num_frames)] == [frame.pts * frame.time_base for frame in frames]
        assert {(width, height, "yuv420p")} == {(frame.width, frame.height, frame.format.name) for frame in frames}


@pytest.mark.parametrize("fps", RATES, ids=str)
def test_film_with_b_frames_has_exact_movie_length(tmp_path: Path, fps: Fraction) -> None:
    """Length in the movie header, which players show, is frames / rate and not rounded to milliseconds."""
    path = write_film(tmp_path / "film.mp4", make_options(fps=fps, num_frames=41, preset="medium"))
    content = path.read_bytes()
    start = content.index(b"mvhd") + 4
    layout = {0: ">4x4x4xII", 1: ">4x8x8xIQ"}[content[start]]  # version 1 has 64-bit times
    timescale, duration = struct.unpack_from(layout, content, start)
    assert 41 / fps == Fraction(duration, timescale)


def test_index_comes_before_pictures(tmp_path: Path) -> None:
    """A player can start with the first bytes."""
    path = write_film(tmp_path / "film.mp4", make_options())
    kinds = [box.kind for box in read_boxes(path)]
    assert (["ftyp", "moov"], "mdat") == (kinds[:2], kinds[-1])
    assert read_brand(path) == "mp42"


def test_same_input_gives_same_bytes_in_any_chunks_and_order(tmp_path: Path) -> None:
    """A retry whose chunks or sound arrive otherwise gives the same file, long enough to need interleaving."""
    options = make_options(num_frames=48, fps=Fraction(4), audio=AudioOptions(sample_rate=24000))
    pixels, tone = make_pixels(options), make_tone(options.audio_samples, rate=24000)
    first, second, third = (tmp_path / name for name in ("first.mp4", "second.mp4", "third.mp4"))
    with Mp4Writer(first, options) as writer:
        writer.write_audio(tone, 24000)
        writer.write_frames(pixels)
    with Mp4Writer(second, options) as writer:
        for frame in pixels:
            writer.write_frames(frame[None])
        writer.write_audio(tone, 24000)
    with Mp4Writer(third, options) as writer:
        for start in range(0, 48, 7):
            writer.write_frames(pixels[start : start + 7])
            writer.write_audio(tone[:, start * 6000 : (start + 7) * 6000], 24000)
    assert first.read_bytes() == second.read_bytes() == third.read_bytes()


def test_chunk_may_be_reused_after_the_call(tmp_path: Path) -> None:
    """Frames are read from the caller's memory, and only during the call: a ring of slots stays safe."""
    options = make_options(num_frames=30, fps=Fraction(30))
    slot = np.empty((1, 48, 64, 3), np.uint8)
    with Mp4Writer(tmp_path / "film.mp4", options) as writer:
        for index in range(30):
            slot[:] = index * 8
            writer.write_frames(slot)
        slot[:] = 0
    means = decode_rgb_bt709(tmp_path / "film.mp4").mean((1, 2, 3))
    np.testing.assert_allclose(np.arange(30) * 8, means, atol=2)


def test_film_is_progressive_high_profile_without_slices(tmp_path: Path) -> None:
    """What every player takes; a name of the library or a time of creation is not in it."""
    path = write_film(tmp_path / "film.mp4", make_options(threads=4, preset="medium"))
    with av.open(str(path)) as container:
        assert container.streams.video[0].codec_context.profile == "High"
        assert {} == {key: value for key, value in container.metadata.items() if key in {"encoder", "creation_time"}}
    assert b"sliced_threads=0" in path.read_bytes()


def test_codec_options_reach_libx264(tmp_path: Path) -> None:
    """libx264 writes its settings into the stream."""
    options = make_options(codec_options={"bf": "1", "g": "5", "refs": "2", "tune": "animation"}, crf=23.5)
    content = write_film(tmp_path / "film.mp4", options).read_bytes()
    for setting in (b"bframes=1 ", b"keyint=5 ", b"ref=2 ", b"crf=23.5 "):
        assert setting in content


@pytest.mark.parametrize("count", [0, 8], ids=["none", "one short"])
def test_too_few_frames_is_an_error_and_leaves_no_file(tmp_path: Path, count: int) -> None:
    """The promise is exact: a short film is never completed."""
    options = make_options()
    with pytest.raises(FrameCountMismatch) as caught, Mp4Writer(tmp_path / "film.mp4", options) as writer:
        writer.write_frames(make_pixels(options)[:count])
    assert (9, count) == (caught.value.promised, caught.value.received)
    assert [] == list(tmp_path.iterdir())


def test_too_many_frames_is_an_error_and_leaves_no_file(tmp_path: Path) -> None:
    """A chunk that runs over the end is refused whole."""
    pixels = make_pixels(make_options(num_frames=10))
    with Mp4Writer(tmp_path / "film.mp4", make_options()) as writer:
        writer.write_frames(pixels[:8])
        with pytest.raises(FrameCountMismatch):
            writer.write_frames(pixels[8:])
        assert writer.frames_written == 8
        writer.abort()
    assert [] == list(tmp_path.iterdir())


def test_abort_in_the_middle_leaves_nothing(tmp_path: Path) -> None:
    """Cancelled after more frames than the lookahead holds, so that pictures are on the disk already."""
    options = make_options(num_frames=200, preset="ultrafast")
    with Mp4Writer(tmp_path / "film.mp4", options) as writer:
        writer.write_frames(make_pixels(options)[:150])
        writer.abort()
        writer.abort()
    assert [] == list(tmp_path.iterdir())


def test_exception_in_the_block_leaves_nothing_and_passes(tmp_path: Path) -> None:
    """The caller's own error comes out as it is."""
    options = make_options()
    with pytest.raises(KeyboardInterrupt), Mp4Writer(tmp_path / "film.mp4", options) as writer:  # noqa: PT012 - its case
        writer.write_frames(make_pixels(options)[:4])
        raise KeyboardInterrupt
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "chunk",
    [
        pytest.param(np.zeros((1, 48, 64, 4), np.uint8), id="four channels"),
        pytest.param(np.zeros((1, 64, 48, 3), np.uint8), id="turned"),
        pytest.param(np.zeros((1, 48, 64, 3), np.float32), id="floats"),
        pytest.param(np.zeros((48, 64, 3), np.uint8), id="one picture"),
        pytest.param(np.zeros((1, 48, 128, 3), np.uint8)[:, :, ::2], id="strided"),
    ],
)
def test_chunk_of_another_kind_is_refused(tmp_path: Path, chunk: np.ndarray) -> None:
    """Nothing is converted or scaled behind the caller's back."""
    with Mp4Writer(tmp_path / "film.mp4", make_options()) as writer:
        with pytest.raises(ChunkRefused):
            writer.write_frames(chunk)
        assert writer.frames_written == 0
        writer.abort()


def test_folder_that_does_not_exist_is_a_typed_error(tmp_path: Path) -> None:
    """The library's error is translated, its cause and number kept."""
    options = make_options()
    with pytest.raises(EncodeFailed) as caught, Mp4Writer(tmp_path / "none" / "film.mp4", options) as writer:
        writer.write_frames(make_pixels(options))
    assert caught.value.errno == 2
    assert isinstance(caught.value.__cause__, av.error.FFmpegError)


def test_full_disk_is_a_typed_error_and_leaves_nothing(tmp_path: Path) -> None:
    """A write that the system refuses ends the encode; a limit on file size stands in for the full disk."""
    options = make_options(width=256, height=256, num_frames=40, crf=1, preset="ultrafast")
    noise = np.random.default_rng(0).integers(0, 256, (40, 256, 256, 3), np.uint8)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
    try:
        with pytest.raises(EncodeFailed) as caught, Mp4Writer(tmp_path / "film.mp4", options) as writer:
            writer.write_frames(noise)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.errno == 27
    assert [] == list(tmp_path.iterdir())


def test_memory_and_open_files_are_flat_over_many_films(tmp_path: Path) -> None:
    """Finished, failed and aborted films give back what they took: 300 of them cost less than one more film."""
    options = make_options(width=320, height=240, num_frames=4, preset="ultrafast", threads=1)
    pixels = make_pixels(options)
    process = psutil.Process()

    def make_three() -> None:
        write_film(tmp_path / "film.mp4", options, pixels)
        with pytest.raises(FrameCountMismatch), Mp4Writer(tmp_path / "film.mp4", options) as writer:
            writer.write_frames(pixels[:3])
        with Mp4Writer(tmp_path / "film.mp4", options) as writer:
            writer.write_frames(pixels[:2])
            writer.abort()

    for _ in range(10):
        make_three()
    gc.collect()
    files, before_bytes = process.num_fds(), process.memory_info().rss
    for _ in range(100):
        make_three()
    gc.collect()
    assert files == process.num_fds()
    assert process.memory_info().rss - before_bytes < 6 * 2**20
