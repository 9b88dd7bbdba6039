"""Which service a command talks to: `$VITASCOPE_URL`, else the local run, else, for `generate`, a run of its own."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from vitascope.cli.client import Client, client_from_environment
from vitascope.cli.exits import CommandError, Exit
from vitascope.local import launch
from vitascope.local.running import find_run

START_DEADLINE_S = 900.0
STOP_DEADLINE_S = 60.0


def default_data_folder() -> Path:
    """`$VITASCOPE_DATA`, else `vitascope` in the user's data folder (XDG base directory specification)."""
    if named := os.environ.get("VITASCOPE_DATA"):
        return Path(named)
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "vitascope"


def find_client() -> Client:
    """A client of the service that is meant.

    Raises:
        CommandError: `UNREACHABLE`, neither is `$VITASCOPE_URL` set nor does a local run answer.
    """
    client = _find_client()
    if client is None:
        raise CommandError(
            Exit.UNREACHABLE,
            "no service to talk to",
            why=f"VITASCOPE_URL is not set, and nothing runs in {default_data_folder()}",
            fix="Start one with `vitascope up`, or set VITASCOPE_URL.",
        )
    return client


@contextmanager
def find_or_start_client(on_wait: Callable[[str], None]) -> Iterator[Client]:
    """As `find_client`, but a run with a data folder of its own is started if there is none, and stopped at the end."""
    if (client := _find_client()) is not None:
        yield client
        return
    on_wait("starting a pipeline for this one video (`vitascope up` keeps one running)")
    with _temporary_run(on_wait) as url:
        yield client_from_environment(url)


def _find_client() -> Client | None:
    if url := os.environ.get("VITASCOPE_URL"):
        return client_from_environment(url)
    running = find_run(default_data_folder())
    return client_from_environment(running.url) if running else None


@contextmanager
def _temporary_run(on_wait: Callable[[str], None]) -> Iterator[str]:
    """The URL of a `vitascope up` on free ports; its data folder goes with it, unless it did not start."""
    folder = Path(tempfile.mkdtemp(prefix="vitascope-"))
    process = _spawn_up(folder)
    is_kept = False
    try:
        try:
            url = wait_ready(process, folder, on_wait)
        except CommandError:
            is_kept = True  # its logs say more than the error can
            raise
        yield url
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_DEADLINE_S)
        process.kill()
        process.communicate()
        if not is_kept:
            shutil.rmtree(folder, ignore_errors=True)


def _spawn_up(folder: Path) -> subprocess.Popen[str]:
    """Start the run, tied to this process's life even if that is killed; what it says to people lies in the folder."""
    up = (sys.executable, "-m", "vitascope", "up", "--data", str(folder), "--port", "0", "--json")
    with (folder / "up.log").open("w") as said:
        return subprocess.Popen(  # noqa: S603 (our own interpreter and module)
            [sys.executable, "-I", "-S", launch.__file__, str(os.getpid()), *up],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            start_new_session=True,  # Ctrl-C reaches this process only, which then stops the run in order
        )


def wait_ready(process: subprocess.Popen[str], folder: Path, on_wait: Callable[[str], None]) -> str:
    """The URL of the run; its reports of starting children are passed on. After `START_DEADLINE_S` it is stopped.

    Raises:
        CommandError: it did not start; the error says why, and names the folder where its logs lie.
    """
    assert process.stdout is not None
    deadline = threading.Timer(START_DEADLINE_S, process.terminate)
    deadline.daemon = True
    deadline.start()
    last_reason = ""
    try:
        for line in process.stdout:
            report = json.loads(line)
            if report["event"] == "ready":
                return str(report["url"])
            if report["event"] == "error":
                fix = f"{report['fix']} The data folder with the logs is kept: {folder}".strip()
                raise CommandError(Exit(report["exit"]), report["what"], why=report["why"], fix=fix)
            reason = f" ({report['reason']})" if report["reason"] else ""
            last_reason = f"{report['child']} {report['state']}{reason}" if reason else last_reason
            on_wait(f"{report['child']}: {report['state']}{reason}")
    finally:
        deadline.cancel()
    raise CommandError(
        Exit.NOT_READY, "the pipeline did not start", why=last_reason or f"{folder / 'up.log'} has its last words",
        fix=f"Run `vitascope doctor`. The data folder with the logs is kept: {folder}",
    )  # fmt: skip
