"""Which service a command talks to: `$VITASCOPE_URL`, else the local run, else, for `generate`, a run of its own."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from vitascope.cli.client import Client, client_from_environment
from vitascope.cli.exits import CommandError, Exit
from vitascope.local import launch
from vitascope.local.running import find_run

START_DEADLINE_S = 900.0
STOP_DEADLINE_S = 60.0
POLL_S = 0.1


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
    with tempfile.TemporaryDirectory(prefix="vitascope-") as folder, _temporary_run(Path(folder), on_wait) as url:
        yield client_from_environment(url)


def _find_client() -> Client | None:
    if url := os.environ.get("VITASCOPE_URL"):
        return client_from_environment(url)
    running = find_run(default_data_folder())
    return client_from_environment(running.url) if running else None


@contextmanager
def _temporary_run(folder: Path, on_wait: Callable[[str], None]) -> Iterator[str]:
    """A `vitascope up` on free ports, tied to this process's life even if that is killed."""
    up = (sys.executable, "-m", "vitascope", "up", "--data", str(folder), "--port", "0", "--json")
    process = subprocess.Popen(  # noqa: S603 (our own interpreter and module)
        [sys.executable, "-I", "-S", launch.__file__, str(os.getpid()), *up],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C reaches this process only, which then stops the run in order
    )
    try:
        yield _wait_ready(process, folder, on_wait)
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_DEADLINE_S)
        process.kill()
        process.communicate()


def _wait_ready(process: subprocess.Popen[str], folder: Path, on_wait: Callable[[str], None]) -> str:
    """The URL of the run; its reports of starting children are passed on."""
    assert process.stdout is not None
    deadline = time.monotonic() + START_DEADLINE_S
    for line in process.stdout:
        report = json.loads(line)
        if report["event"] == "ready":
            return str(report["url"])
        if report["event"] == "error":
            raise CommandError(Exit.NOT_READY, report["what"], why=report["why"], fix=report["fix"])
        on_wait(f"{report['child']}: {report['state']}")
        if time.monotonic() > deadline:
            break
    raise CommandError(
        Exit.NOT_READY, "the pipeline did not start", why=f"its logs were in {folder / 'logs'}",
        fix="Run `vitascope doctor`, or `vitascope up` to see what it says.",
    )  # fmt: skip
