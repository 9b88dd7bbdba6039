"""The logs of child processes: one file each, bounded by rotation."""

import contextlib
import os
import threading
from collections import deque
from pathlib import Path
from typing import BinaryIO

MAX_LOG_BYTES = 8 * 1024**2
MAX_OLD_LOGS = 2  # NAME.log.1 is the newer one
READ_BYTES = 64 * 1024
TAIL_LINES = 20


class LogPipe:
    """A pipe that a thread of its own copies to a log file: a busy event loop never stalls a child's output.

    Give `write_end` to the child, then call `started`. The thread ends when the last writer of the pipe does.
    """

    def __init__(self, path: Path, *, max_bytes: int = MAX_LOG_BYTES) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._file = _open_log(path)
        self._read_end, self.write_end = os.pipe()
        self._thread = threading.Thread(target=self._copy, name=f"log {path.stem}", daemon=True)

    def started(self) -> None:
        """The child has its copy of the write end, or never will."""
        os.close(self.write_end)
        self._thread.start()

    def join(self, timeout_s: float) -> None:
        """Waits until all output is in the file. Blocks: call it from a thread."""
        self._thread.join(timeout_s)

    def _copy(self) -> None:
        with os.fdopen(self._read_end, "rb", buffering=0) as source:
            while chunk := source.read(READ_BYTES):
                with contextlib.suppress(OSError):  # a full disk costs lines of the log, not the child
                    self._append(chunk)
        self._file.close()

    def _append(self, chunk: bytes) -> None:
        if self._file.closed:  # an earlier rotation failed
            self._file = _open_log(self._path)
        if self._file.tell() + len(chunk) > self._max_bytes:
            self._file.close()
            _rotate(self._path)
            self._file = _open_log(self._path)
        self._file.write(chunk)


def read_tail(path: Path, max_lines: int = TAIL_LINES) -> str:
    """Returns the last lines of a log; empty if there is none."""
    if not path.exists():
        return ""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - READ_BYTES))
        lines = deque(file.read().decode(errors="replace").splitlines(), maxlen=max_lines)
    return "\n".join(lines)


def _open_log(path: Path) -> BinaryIO:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    return os.fdopen(descriptor, "ab", buffering=0)


def _rotate(path: Path) -> None:
    for number in range(MAX_OLD_LOGS, 0, -1):
        older = path.with_name(f"{path.name}.{number}")
        newer = path.with_name(f"{path.name}.{number - 1}") if number > 1 else path
        if newer.exists():
            newer.replace(older)
