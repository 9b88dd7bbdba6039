"""The folder of one process."""

import multiprocessing
import os
import signal
from multiprocessing.connection import Connection
from pathlib import Path

from vitascope.runtime.scratch import own_scratch, remove_abandoned

ROLE = "encode"


def test_goes_with_the_block(tmp_path: Path) -> None:
    """With everything in it."""
    with own_scratch(tmp_path, ROLE) as path:
        (path / "video.mp4").write_bytes(b"half a video")
        assert [path] == list(tmp_path.iterdir())
    assert [] == list(tmp_path.iterdir())


def test_living_owner_keeps_its_folder(tmp_path: Path) -> None:
    """Another process that starts beside it leaves it alone."""
    with own_scratch(tmp_path, ROLE) as path, own_scratch(tmp_path, ROLE):
        assert path.is_dir()


def test_killed_owner_is_cleaned_up_after(tmp_path: Path) -> None:
    """By the next process that starts, and nothing else is touched."""
    (tmp_path / "somebody-elses").mkdir()
    context = multiprocessing.get_context("spawn")
    told, telling = context.Pipe(duplex=False)
    child = context.Process(target=_hold, args=(tmp_path, telling))
    child.start()
    left = Path(told.recv())
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    assert (left / "video.mp4").exists()
    assert [left] == remove_abandoned(tmp_path, f"vitascope-{ROLE}-")
    assert [tmp_path / "somebody-elses"] == list(tmp_path.iterdir())


def _hold(root: Path, telling: Connection) -> None:
    with own_scratch(root, ROLE) as path:
        (path / "video.mp4").write_bytes(b"half a video")
        telling.send(str(path))
        signal.pause()
