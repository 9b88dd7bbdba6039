"""The process that reads one file: what it makes, what it refuses, and that nothing of it stays."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import PIL.Image
import psutil
import pytest

from media_files import exif_of, pixel_bomb, png, sound, two_colours, video
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.media.limits import MEBIBYTE, MediaKind, MediaLimits
from vitascope.media.reader import read_media

LIMITS = MediaLimits()
TURNS = 1000
NOISE = list(np.random.default_rng(1).integers(0, 256, (8, 64, 64, 3), np.uint8))


async def refuse(path: Path, kind: MediaKind, limits: MediaLimits = LIMITS) -> FailureCode:
    out = path.with_name("out")
    with pytest.raises(VitascopeError) as caught:
        await read_media(path, kind, out, limits)
    assert [] == list_children()
    assert not out.exists()
    assert str(path.parent) not in str(caught.value)
    return caught.value.code


def list_children() -> list[psutil.Process]:
    """Readers that run; other tests' servers are children, too."""
    return [child for child in psutil.Process().children() if "vitascope.media.child" in _command(child)]


def _command(child: psutil.Process) -> list[str]:
    try:
        return child.cmdline()
    except psutil.NoSuchProcess:
        return []


async def test_kind_is_found_out(tmp_path: Path) -> None:
    """A picture is an image or a video, whatever its name says."""
    (tmp_path / "clip.mp4").write_bytes(png())
    film = video(tmp_path / "film.png")
    first = await read_media(tmp_path / "clip.mp4", MediaKind.PICTURE, tmp_path / "1", LIMITS)
    second = await read_media(film, MediaKind.PICTURE, tmp_path / "2", LIMITS)

    assert (MediaKind.IMAGE, "image/png", 40, 20) == (first.kind, first.media_type, first.width, first.height)
    assert (MediaKind.VIDEO, 12, False) == (second.kind, second.num_frames, second.has_audio)


async def test_sound(tmp_path: Path) -> None:
    """With its seconds, and no size."""
    made = await read_media(sound(tmp_path / "s"), MediaKind.AUDIO, tmp_path / "out", LIMITS)

    assert (MediaKind.AUDIO, pytest.approx(0.5), None) == (made.kind, made.duration_s, made.width)


async def test_photo_of_a_phone(tmp_path: Path) -> None:
    """The upright size is what is reported."""
    two_colours().save(tmp_path / "photo", "JPEG", exif=exif_of(6))
    made = await read_media(tmp_path / "photo", MediaKind.IMAGE, tmp_path / "out", LIMITS)

    assert (20, 40) == (made.width, made.height)


@pytest.mark.parametrize("kind", MediaKind)
async def test_rubbish(kind: MediaKind, tmp_path: Path) -> None:
    """Whatever it is taken for."""
    (tmp_path / "in").write_bytes(b"GIF89a" + b"\xff" * 500)

    assert FailureCode.MEDIA_INVALID == await refuse(tmp_path / "in", kind)


async def test_pixel_bomb(tmp_path: Path) -> None:
    """Refused by what it declares."""
    (tmp_path / "in").write_bytes(pixel_bomb())

    assert FailureCode.MEDIA_TOO_LARGE == await refuse(tmp_path / "in", MediaKind.PICTURE)


async def test_more_memory_than_given(tmp_path: Path) -> None:
    """The reader's, not the service's, is what runs out."""
    PIL.Image.new("RGB", (12_000, 5_000)).save(tmp_path / "in", "PNG", compress_level=1)
    limits = replace(LIMITS, memory_bytes=300 * MEBIBYTE)

    assert FailureCode.MEDIA_TOO_LARGE == await refuse(tmp_path / "in", MediaKind.IMAGE, limits)


@pytest.mark.parametrize("kind", [MediaKind.IMAGE, MediaKind.VIDEO])
async def test_longer_file_than_allowed(kind: MediaKind, tmp_path: Path) -> None:
    """What is made of it is bounded, too."""
    path = video(tmp_path / "in", NOISE)
    if kind is MediaKind.IMAGE:
        path.write_bytes(png(PIL.Image.fromarray(NOISE[0])))

    assert FailureCode.MEDIA_TOO_LARGE == await refuse(path, kind, replace(LIMITS, max_out_bytes=2000))


async def test_reader_that_dies(tmp_path: Path) -> None:
    """As a decoder does that a file gets the better of: the file is refused, and the service goes on."""
    os.mkfifo(tmp_path / "in")
    reading = asyncio.create_task(refuse(tmp_path / "in", MediaKind.IMAGE))
    (await _find_bounded()).send_signal(signal.SIGSEGV)

    assert FailureCode.MEDIA_INVALID == await reading


async def test_reader_that_hangs(tmp_path: Path) -> None:
    """It is ended."""
    os.mkfifo(tmp_path / "in")

    assert FailureCode.MEDIA_TOO_LARGE == await refuse(tmp_path / "in", MediaKind.IMAGE, replace(LIMITS, timeout_s=0.3))


async def test_cancelled(tmp_path: Path) -> None:
    """Whoever no longer wants it leaves no process."""
    async with _hanging(tmp_path):
        pass

    assert [] == list_children()


async def test_reader_has_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No credential of the service's, little memory, few files, and no way to write a dump."""
    monkeypatch.setenv("VITASCOPE_S3__SECRET_KEY", "hush")
    async with _hanging(tmp_path) as child:
        assert [] == [name for name in child.environ() if name.startswith(("VITASCOPE", "AWS", "HOME"))]
        assert LIMITS.memory_bytes == child.rlimit(psutil.RLIMIT_AS)[1]
        assert LIMITS.max_out_bytes == child.rlimit(psutil.RLIMIT_FSIZE)[1]
        assert (64, 0) == (child.rlimit(psutil.RLIMIT_NOFILE)[1], child.rlimit(psutil.RLIMIT_CORE)[1])


@asynccontextmanager
async def _hanging(folder: Path) -> AsyncIterator[psutil.Process]:
    """A reader that waits for a file, past its start; cancelled at the end."""
    os.mkfifo(folder / "in")
    reading = asyncio.create_task(read_media(folder / "in", MediaKind.IMAGE, folder / "out", LIMITS))
    try:
        yield await _find_bounded()
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


async def _find_bounded() -> psutil.Process:
    for _ in range(TURNS):
        for child in list_children():
            if child.rlimit(psutil.RLIMIT_CORE)[1] == 0:  # the last of its bounds
                return child
        await asyncio.sleep(0.01)
    raise AssertionError("no reader has started")
