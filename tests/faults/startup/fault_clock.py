"""The clock of one process jumps: `FAULTS_FOLDER/clock/CHILD` holds the seconds by which it is wrong.

Wrong are `time.time`, the product's own clock and that of the S3 client; the monotonic clock stays right, as it does
when somebody sets a machine's time.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

from fault_place import FOLDER, child_name

LOOK_EVERY_S = 0.05
_real_time, _real_time_ns = time.time, time.time_ns


class _Offset:
    """What the file says, looked at now and then: a clock is read often."""

    def __init__(self, path: Path) -> None:
        self._path, self._due_s, self._offset_s = path, 0.0, 0.0

    def read_s(self) -> float:
        now_s = time.monotonic()
        if now_s >= self._due_s:
            self._due_s = now_s + LOOK_EVERY_S
            try:
                self._offset_s = float(self._path.read_text() or 0)
            except (OSError, ValueError):
                self._offset_s = 0.0
        return self._offset_s


_offset = _Offset(FOLDER / "clock" / child_name())


def install() -> None:
    """Make `time.time` wrong from now on."""
    time.time = lambda: _real_time() + _offset.read_s()
    time.time_ns = lambda: _real_time_ns() + int(_offset.read_s() * 1e9)


def _shifted(now: Callable[..., datetime]) -> Callable[..., datetime]:
    def wrong(*given: Any) -> datetime:
        return now(*given) + timedelta(seconds=_offset.read_s())

    return wrong


def _change_clock(module: ModuleType) -> None:
    module.SystemClock.now = _shifted(module.SystemClock.now)


def _change_minio(module: Any) -> None:
    module.utcnow = _shifted(module.utcnow)


CHANGES: Mapping[str, Sequence[Callable[[ModuleType], None]]] = {
    "vitascope.runtime.ports": [_change_clock],
    "minio.time": [_change_minio],
}
