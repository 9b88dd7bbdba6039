"""No process outlives its run, and no stranger is ended. Real processes."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from children import Reports, is_running
from vitascope.local.child import ChildSpec
from vitascope.local.folder import DataFolder, open_folder
from vitascope.local.keeper import ChildState, Restarts
from vitascope.local.orphans import MARK_VARIABLE, compute_mark, kill_children_of
from vitascope.local.supervisor import Supervisor

DEADLINE_S = 20.0
SLEEP = "import time; time.sleep(600)"
# Starts a process that leaves the session, tells both ids, and waits.
WITH_DESCENDANT = f"""
import os, subprocess, sys, time
descendant = subprocess.Popen([sys.executable, "-c", {SLEEP!r}], start_new_session=True)
with open("pids.new", "w") as file:
    file.write(f"{{os.getpid()}} {{descendant.pid}}")
os.replace("pids.new", "pids")
time.sleep(600)
"""
# A run as a program of its own: holds the folder and waits for ever.
RUN = f"""
import asyncio, sys
from pathlib import Path
from vitascope.local.child import ChildSpec
from vitascope.local.folder import open_folder
from vitascope.local.supervisor import Supervisor

async def main():
    with open_folder(Path(sys.argv[1]), min_free_bytes=0) as folder:
        async def is_ready():
            return (folder.path / "pids").exists()
        argv = (sys.executable, "-c", {WITH_DESCENDANT!r})
        async with Supervisor(folder) as supervisor:
            await supervisor.start(ChildSpec(name="parent", argv=argv, cwd=folder.path, is_ready=is_ready))
            print("up", flush=True)
            await supervisor.wait_failed()

asyncio.run(main())
"""


def plan_parent(folder: DataFolder) -> ChildSpec:
    async def is_ready() -> bool:
        return (folder.path / "pids").exists()

    return ChildSpec(name="parent", argv=(sys.executable, "-c", WITH_DESCENDANT), cwd=folder.path, is_ready=is_ready)


def read_pids(path: Path) -> list[int]:
    return [int(pid) for pid in (path / "pids").read_text().split()]


@contextmanager
def sleeping(mark: str | None) -> Iterator[psutil.Process]:
    env = {**os.environ, **({} if mark is None else {MARK_VARIABLE: mark})}
    with subprocess.Popen([sys.executable, "-c", SLEEP], env=env) as process:
        try:
            yield psutil.Process(process.pid)
        finally:
            process.kill()


@contextmanager
def running(path: Path) -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", RUN, str(path)], stdout=subprocess.PIPE) as run:
        try:
            assert run.stdout is not None
            assert any(line == b"up\n" for line in run.stdout)
            yield run.pid
        finally:
            run.kill()


async def test_descendants_end_with_a_stopped_child(folder: DataFolder) -> None:
    """Also one that has left the child's session and outlives its parent."""
    async with Supervisor(folder) as supervisor:
        await supervisor.start(plan_parent(folder))
        pids = read_pids(folder.path)
        assert [True, True] == [is_running(pid) for pid in pids]
    assert [False, False] == [is_running(pid) for pid in pids]


async def test_descendants_end_before_a_crashed_child_starts_again(folder: DataFolder, reports: Reports) -> None:
    """The second child never meets what the first has left."""
    restarts = Restarts(first_delay_s=0.0)
    async with Supervisor(folder, restarts=restarts, on_report=reports) as supervisor:
        await supervisor.start(plan_parent(folder))
        parent, descendant = read_pids(folder.path)
        os.kill(parent, signal.SIGKILL)
        await reports.wait_for("parent", ChildState.ENDED)
        assert not is_running(descendant)


async def test_children_end_with_a_killed_run(tmp_path: Path) -> None:
    """SIGKILL of the run takes its children along; what these had started goes at the next start."""
    path = tmp_path / "data"
    with running(path) as run_pid:
        parent, descendant = (psutil.Process(pid) for pid in read_pids(path))
        os.kill(run_pid, signal.SIGKILL)
        gone, _ = psutil.wait_procs([parent], timeout=DEADLINE_S)
        assert [parent] == gone
        assert is_running(descendant.pid)
    with open_folder(path, min_free_bytes=0) as folder:
        async with Supervisor(folder):
            assert not is_running(descendant.pid)


async def test_interrupted_run_ends_its_children(tmp_path: Path) -> None:
    """Ctrl-C reaches the run alone, which stops everything before it ends."""
    with running(tmp_path / "data") as run_pid:
        processes = [psutil.Process(pid) for pid in read_pids(tmp_path / "data")]
        os.kill(run_pid, signal.SIGINT)
        psutil.wait_procs([psutil.Process(run_pid)], timeout=DEADLINE_S)
        assert [False, False] == [is_running(process.pid) for process in processes]


async def test_only_marked_processes_are_ended(folder: DataFolder, tmp_path: Path) -> None:
    """A process without our mark, with another folder's or with that of our folder's copy is left alone."""
    copy = DataFolder(tmp_path / "copy", folder.folder_id, folder.credentials)
    other = DataFolder(folder.path, "0" * 32, folder.credentials)
    with (
        sleeping(compute_mark(folder, "nats")) as ours,
        sleeping(None) as stranger,
        sleeping(compute_mark(copy, "nats")) as of_copy,
        sleeping(compute_mark(other, "nats")) as of_other,
    ):
        assert [ours.pid] == await kill_children_of(folder)
        assert [False, True, True, True] == [is_running(p.pid) for p in (ours, stranger, of_copy, of_other)]


async def test_one_childs_descendants_are_told_from_anothers(folder: DataFolder) -> None:
    """Names are compared whole."""
    with sleeping(compute_mark(folder, "decode")) as one, sleeping(compute_mark(folder, "decode-2")) as other:
        assert [one.pid] == await kill_children_of(folder, "decode")
        assert is_running(other.pid)
