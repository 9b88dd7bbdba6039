"""Logs of children: complete, bounded, readable from the end."""

import os
from pathlib import Path

import pytest

from vitascope.local.logs import LogPipe, read_tail

JOIN_DEADLINE_S = 10.0


def write_log(path: Path, chunks: list[bytes], *, max_bytes: int) -> None:
    pipe = LogPipe(path, max_bytes=max_bytes)
    writer = os.dup(pipe.write_end)
    pipe.started()
    for chunk in chunks:
        os.write(writer, chunk)
    os.close(writer)
    pipe.join(JOIN_DEADLINE_S)


def test_output_is_appended_for_the_owner_only(tmp_path: Path) -> None:
    """A second run goes on in the same file; nobody else may read it."""
    path = tmp_path / "nats.log"
    write_log(path, [b"one\n", b"two\n"], max_bytes=100)
    write_log(path, [b"three\n"], max_bytes=100)
    assert path.read_bytes() == b"one\ntwo\nthree\n"
    assert path.stat().st_mode & 0o777 == 0o600


def test_files_stay_bounded(tmp_path: Path) -> None:
    """However much a child says, three files of the bound at most remain, the newest output among them."""
    path = tmp_path / "chatty.log"
    for number in range(20):
        write_log(path, [b"%02d" % number + b"x" * 58], max_bytes=100)
    files = sorted(tmp_path.iterdir())
    assert [path, path.with_name("chatty.log.1"), path.with_name("chatty.log.2")] == files
    assert [b"19", b"18", b"17"] == [file.read_bytes()[:2] for file in files]
    assert all(file.stat().st_size <= 100 for file in files)


def test_full_disk_does_not_stall_the_child(tmp_path: Path) -> None:
    """What cannot be written is dropped: more than a pipe holds can be said."""
    path = tmp_path / "full.log"
    path.symlink_to("/dev/full")
    write_log(path, [b"x" * 60_000] * 10, max_bytes=100_000)


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        pytest.param("b\nc", "a\nb\nc\n", id="last-lines"),
        pytest.param("a", "a", id="short"),
        pytest.param("", "", id="empty"),
        pytest.param("", None, id="absent"),
    ],
)
def test_tail_is_read(tmp_path: Path, expected: str, text: str | None) -> None:
    """The last lines, as many as there are."""
    path = tmp_path / "some.log"
    if text is not None:
        path.write_text(text)
    assert expected == read_tail(path, max_lines=2)
