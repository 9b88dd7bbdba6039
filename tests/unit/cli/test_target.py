"""Which service a command talks to."""

import os
from pathlib import Path

import psutil
import pytest

from vitascope.cli.exits import CommandError, Exit
from vitascope.cli.target import default_data_folder, find_client
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
