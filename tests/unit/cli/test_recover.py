"""`vitascope recover`: what it says was done, and its exit status."""

import json
from pathlib import Path

import pytest

from vitascope.cli import app, recover
from vitascope.cli.exits import CommandError, Exit
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.runtime.rebuild import RebuildReport
from vitascope.runtime.settings import Settings

COUNTS = {"copies": 7, "present": 3, "rebuilt_live": 2, "rebuilt_ended": 1, "left": 1}


class Service:
    """Servers that answer with a report, or do not."""

    def __init__(self) -> None:
        self.report = RebuildReport(copies=7, present=3, live=2, ended=1, left=1)
        self.error: VitascopeError | None = None
        self.asked: list[tuple[str, bool]] = []

    async def recover(self, settings: Settings, *, takes_all: bool) -> RebuildReport:
        self.asked.append((settings.nats.url, takes_all))
        if self.error is not None:
            raise self.error
        return self.report


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Service:
    """The environment leads to them."""
    made = Service()
    monkeypatch.setenv("VITASCOPE_NATS__URL", "nats://there:1")
    monkeypatch.setattr(recover, "recover", made.recover)
    return made


def run(*arguments: str) -> None:
    """Run the command as a user does, but for what `main` makes of errors."""
    app.app(["recover", *arguments], standalone_mode=False)


@pytest.mark.parametrize("takes_all", [False, True])
def test_what_was_done_is_told_to_programs(
    servers: Service, capsys: pytest.CaptureFixture[str], *, takes_all: bool
) -> None:
    """One object; the servers are those of the environment."""
    run("--json", *(["--all"] if takes_all else []))
    assert {**COUNTS, "broken": 0, "broken_keys": []} == json.loads(capsys.readouterr().out)
    assert [("nats://there:1", takes_all)] == servers.asked


def test_broken_copies_are_listed_and_fail(servers: Service, capsys: pytest.CaptureFixture[str]) -> None:
    """What could be taken was taken; the status says that it was not all."""
    servers.report.note_broken("records/default/[x]/record.json", "no JSON")
    with pytest.raises(CommandError) as raised:
        run()
    assert Exit.FAILED is raised.value.code
    assert "records/default/[x]/record.json" in capsys.readouterr().out


def test_servers_that_are_away(servers: Service) -> None:
    """Nothing is lost; the reason is the servers' own."""
    servers.error = VitascopeError(FailureCode.BUS_UNAVAILABLE, "start the scheduler")
    with pytest.raises(CommandError) as raised:
        run()
    assert (Exit.UNREACHABLE, True) == (raised.value.code, "start the scheduler" in raised.value.why)


def test_no_service(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither the environment names one nor does a local run answer."""
    monkeypatch.delenv("VITASCOPE_NATS__URL", raising=False)
    monkeypatch.setenv("VITASCOPE_DATA", str(tmp_path))
    with pytest.raises(CommandError) as raised:
        run()
    assert Exit.UNREACHABLE is raised.value.code
