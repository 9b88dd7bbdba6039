"""Finds and ends processes that an earlier run of the same data folder has left, and nothing else.

Every child gets an environment variable that holds the folder's random id, its path and the child's name; what the
child starts inherits it. A process is ours exactly if it carries our folder's mark. Process ids are never stored, so a
reused one cannot be mistaken for ours, and a copied folder (same id, other path) does not hit the run of its original.
"""

import asyncio
import contextlib
import os
import time

import psutil

from vitascope.local.folder import DataFolder

MARK_VARIABLE = "VITASCOPE_RUN"
MAX_SWEEPS = 100  # a process may fork while it is being looked for, and takes its time to end
SWEEP_INTERVAL_S = 0.05


def compute_mark(folder: DataFolder, child_name: str) -> str:
    """Returns the value of MARK_VARIABLE for a child."""
    return f"{folder.folder_id}:{folder.path}:{child_name}"


async def kill_children_of(folder: DataFolder, child_name: str | None = None) -> list[int]:
    """Kills all processes that carry the folder's mark, or only those of one child; returns the ids of those found."""
    if child_name is None:
        return await asyncio.to_thread(_sweep, compute_mark(folder, ""), exact=False)
    return await asyncio.to_thread(_sweep, compute_mark(folder, child_name), exact=True)


def _sweep(mark: str, *, exact: bool) -> list[int]:
    killed: set[int] = set()
    for _ in range(MAX_SWEEPS):
        found = [process for process in psutil.process_iter() if _carries(process, mark, exact=exact)]
        if not found:
            break
        for process in found:
            _kill(process)
        killed |= {process.pid for process in found}
        time.sleep(SWEEP_INTERVAL_S)
    return sorted(killed)


def _carries(process: psutil.Process, mark: str, *, exact: bool) -> bool:
    if process.pid == os.getpid():
        return False
    try:
        value = process.environ().get(MARK_VARIABLE, "")
        has_ended = process.status() == psutil.STATUS_ZOMBIE  # its parent may never notice: do not wait for that
    except (psutil.Error, OSError):  # gone, or not our user's: then not our child either
        return False
    return not has_ended and (value == mark if exact else value.startswith(mark))


def _kill(process: psutil.Process) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process.kill()  # checks the start time first: never hits a reused id
