"""Which service a command talks to."""

import io
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import psutil
import pytest

from vitascope.cli import target
from vitascope.cli.exits import CommandError, Exit
from vitascope.cli.target import default_data_folder, find_client, find_or_start_client, wait_ready
from vitascope.local.running import RunningUp, announce_run, find_run, withdraw_run


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data folder, and no service named."""
    (tmp_path / "run").mkdir()
    monkeypatch.setenv("VITASCOPE_DATA", str(tmp_path))
    monkeypatch.delenv("VITASCOPE_URL", raising=False)
    monkeypatch.delenv("VITASCOPE_API_KEY", raising=False)
    return tmp_path


def test_named_service_comes_first(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment's address and key, whatever runs here."""
    announce_run(data, RunningUp.of_this_process("http://127.0.0.1:1"))
    monkeypatch.setenv("VITASCOPE_URL", "http://far/")
    monkeypatch.setenv("VITASCOPE_API_KEY", "k")
    client = find_client()
    assert ("http://far", "k") == (client.url, client.api_key)


def test_local_run_is_found(data: Path) -> None:
    """A run of the data folder that is alive."""
    announce_run(data, RunningUp.of_this_process("http://127.0.0.1:1"))
    assert "http://127.0.0.1:1" == find_client().url
    assert 0o600 == (data / "run" / "up.json").stat().st_mode & 0o777
    withdraw_run(data)
    assert None is find_run(data)


@pytest.mark.parametrize(
    "running",
    [
        pytest.param(RunningUp("http://x", 2**22 + 1, 0.0), id="no such process"),
        pytest.param(RunningUp("http://x", os.getpid(), psutil.Process().create_time() - 100), id="recycled number"),
    ],
)
def test_dead_run_is_not_found(data: Path, running: RunningUp) -> None:
    """A file that a killed run left behind names nobody, even if its number lives on."""
    announce_run(data, running)
    with pytest.raises(CommandError, match="no service") as raised:
        find_client()
    assert Exit.UNREACHABLE is raised.value.code


def test_damaged_file_is_no_run(data: Path) -> None:
    """Half a file is no address."""
    (data / "run" / "up.json").write_text('{"url": "http')
    assert None is find_run(data)


def test_default_folder_follows_the_standard(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """XDG's data folder when nothing else is named."""
    monkeypatch.delenv("VITASCOPE_DATA")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert tmp_path / "vitascope" == default_data_folder()


CHILD: dict[str, Any] = {"event": "child", "child": "denoise", "state": "ended", "reason": "exited with status 1"}
ERROR: dict[str, Any] = {"event": "error", "what": "It broke", "why": "no room", "fix": "Make room.", "exit": 6}
READY: dict[str, Any] = {"event": "ready", "url": "http://127.0.0.1:1"}


class SpokenRun:
    """A run that has said something on its standard output."""

    def __init__(self, *reports: dict[str, Any]) -> None:
        self.stdout = io.StringIO("".join(f"{json.dumps(report)}\n" for report in reports))

    def terminate(self) -> None:
        raise AssertionError("nobody waits that long here")


def test_reasons_of_a_start_are_told(data: Path) -> None:
    """Why a child ended stands beside that it did."""
    told: list[str] = []
    run: Any = SpokenRun(CHILD, {**CHILD, "state": "ready", "reason": None}, READY)
    assert "http://127.0.0.1:1" == wait_ready(run, data, told.append)
    assert ["denoise: ended (exited with status 1)", "denoise: ready"] == told


@pytest.mark.parametrize(
    ("what", "why", "reports"),
    [
        pytest.param("It broke", "no room", [CHILD, ERROR], id="its own error"),
        pytest.param("the pipeline did not start", "denoise ended (exited with status 1)", [CHILD], id="cut off"),
        pytest.param("the pipeline did not start", "up.log", [], id="silent"),
    ],
)
def test_failed_start_says_why_and_where(data: Path, what: str, why: str, reports: list[dict[str, Any]]) -> None:
    """The cause goes on to the user, with the folder that has the logs."""
    run: Any = SpokenRun(*reports)
    with pytest.raises(CommandError, match=what) as raised:
        wait_ready(run, data, lambda _: None)
    assert (Exit.NOT_READY, True, True) == (raised.value.code, why in raised.value.why, str(data) in raised.value.fix)


@pytest.mark.parametrize(
    ("kept", "reports"), [pytest.param(1, [ERROR], id="failed"), pytest.param(0, [READY], id="started")]
)
def test_folder_of_a_failed_start_is_kept(
    kept: int, reports: list[dict[str, Any]], data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its logs are needed then, and only then."""
    said = "".join(f"{json.dumps(report)}\n" for report in reports)
    monkeypatch.setattr(tempfile, "tempdir", str(data))

    def spawn(_: Path) -> subprocess.Popen[str]:
        return subprocess.Popen([sys.executable, "-c", f"print({said!r})"], stdout=subprocess.PIPE, text=True)

    monkeypatch.setattr(target, "_spawn_up", spawn)
    if kept:
        with pytest.raises(CommandError, match="It broke"), find_or_start_client(lambda _: None):
            pass
    else:
        with find_or_start_client(lambda _: None) as client:
            assert 1 == len(list(data.glob("vitascope-*")))
        assert "http://127.0.0.1:1" == client.url
    assert kept == len(list(data.glob("vitascope-*")))
