"""A folder for files in the making that belongs to one process, and goes with it, however it ends.

A process that was killed cannot remove its folder, so the next one does. Whether the owner of a folder lives says a
lock of the kernel on the folder itself: process ids come again, in containers almost at once.
"""

import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import structlog

MAKE_TRIES = 10
"""A folder that is not locked yet looks abandoned to a process that starts at the same moment: then a new one."""

log = structlog.get_logger(__name__)


@contextmanager
def own_scratch(parent: Path | None, role: str) -> Iterator[Path]:
    """A new folder of a process in that role under `parent` (the system's temporary one if None) until the block ends.

    Folders of such processes that are gone are removed first.

    Raises:
        OSError: there can be no folder.
    """
    root = parent or Path(tempfile.gettempdir())
    prefix = f"vitascope-{role}-"
    remove_abandoned(root, prefix)
    path, lock = _make_locked(root, prefix)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock)


def remove_abandoned(root: Path, prefix: str) -> list[Path]:
    """Remove the folders under `root` whose processes have gone, as far as this user may; those removed."""
    removed = []
    for path in sorted(root.glob(f"{prefix}*")):
        try:
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:  # another user's, no folder, or gone by now
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        else:
            shutil.rmtree(path, ignore_errors=True)
            log.info("abandoned scratch removed", folder=path.name)
            removed.append(path)
        finally:
            os.close(lock)
    return removed


def _make_locked(root: Path, prefix: str) -> tuple[Path, int]:
    for _ in range(MAKE_TRIES):
        path = Path(tempfile.mkdtemp(prefix=prefix, dir=root))
        try:
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            continue
        fcntl.flock(lock, fcntl.LOCK_EX)
        if path.exists():  # nobody removes it from here on
            return path, lock
        os.close(lock)
    raise OSError(errno.EBUSY, f"{MAKE_TRIES} folders were taken away as soon as they were made", str(root))
