"""How a run tells others on the machine that it is there."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from vitascope.local.folder import write_private

FILE_NAME = "up.json"


@dataclass(frozen=True)
class RunningUp:
    """A run that is ready: where its door is, and which process it is."""

    url: str
    pid: int
    started_s: float

    @classmethod
    def of_this_process(cls, url: str) -> "RunningUp":
        """The entry of the calling process."""
        me = psutil.Process()
        return cls(url, me.pid, me.create_time())

    def is_alive(self) -> bool:
        """Whether that very process still runs, and not another with its number."""
        try:
            return abs(psutil.Process(self.pid).create_time() - self.started_s) < 1.0
        except psutil.Error:
            return False


def announce_run(folder: Path, running: RunningUp) -> None:
    """Tell that the run is ready; readable by the owner only."""
    write_private(folder / "run" / FILE_NAME, json.dumps(asdict(running)))


def withdraw_run(folder: Path) -> None:
    """Take it back."""
    (folder / "run" / FILE_NAME).unlink(missing_ok=True)


def find_run(folder: Path) -> RunningUp | None:
    """The run of that data folder, if one is ready and alive."""
    try:
        running = RunningUp(**json.loads((folder / "run" / FILE_NAME).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    return running if running.is_alive() else None
