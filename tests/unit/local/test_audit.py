"""What `doctor` says of a running service, and how it finds it."""

import json
import os
import subprocess
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from vitascope.local import audit, checks
from vitascope.local.audit import AuditFailed, find_service
from vitascope.local.checks import Check, CheckState, check_service, list_findings
from vitascope.local.folder import Credentials
from vitascope.local.running import RunningUp, announce_run
from vitascope.publish.survey import Findings, Survey

NONE = Findings(kind="object")
IN_ORDER = Survey(orphans=(NONE,), stalled=NONE, is_complete=True)
SECRETS = Credentials("user", "password", "access", "secret", "internal")


@pytest.fixture(autouse=True)
def _no_service_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(audit.NAMES_A_SERVICE, raising=False)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The folder of a run that this process plays."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "ports.json").write_text(json.dumps({"nats": 1, "s3": 2, "master": 3}))
    (tmp_path / "run" / "credentials.json").write_text(json.dumps(asdict(SECRETS)))
    announce_run(tmp_path, RunningUp.of_this_process("http://127.0.0.1:1"))
    return tmp_path


def test_without_a_service_there_is_nothing_to_look_at(tmp_path: Path) -> None:
    """`doctor` is asked most often before anything runs."""
    assert find_service(tmp_path) is None
    assert [] == check_service(tmp_path)


def test_the_local_run_is_found_by_its_files(run: Path) -> None:
    """Addresses and credentials, as its own processes get them."""
    found = find_service(run) or {}
    wanted = {
        "VITASCOPE_NATS__URL": "nats://127.0.0.1:1",
        "VITASCOPE_NATS__USER": "user",
        "VITASCOPE_NATS__PASSWORD": "password",
        "VITASCOPE_S3__ENDPOINT": "http://127.0.0.1:2",
        "VITASCOPE_S3__ACCESS_KEY": "access",
        "VITASCOPE_S3__SECRET_KEY": "secret",
    }
    assert wanted == {name: found.get(name) for name in wanted}


def test_a_service_in_the_environment_comes_first(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever names one means it."""
    monkeypatch.setenv(audit.NAMES_A_SERVICE, "nats://elsewhere:4222")
    assert dict(os.environ) == find_service(run)


@pytest.mark.parametrize("text", ["", "{}", '{"nats": "x", "s3": 1}', "[]"])
def test_a_run_with_damaged_files_is_told(run: Path, text: str) -> None:
    """A warning and not a traceback."""
    (run / "run" / "ports.json").write_text(text)
    (check,) = check_service(run)
    assert (CheckState.WARNING, True) == (check.state, "cannot be read" in check.found)


def test_servers_that_are_away_are_told(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a process of its own, which says why; nothing listens at port 1."""
    monkeypatch.setattr(audit, "DEADLINE_S", 60.0)
    (check,) = check_service(run)
    assert CheckState.WARNING is check.state
    assert "No NATS server at nats://127.0.0.1:1" in check.found
    assert "password" not in check.found
    assert check.fix


def test_a_server_that_hangs_is_not_waited_for(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it does with the process that looks."""

    def hang(*_: object, timeout: float, **__: object) -> Any:
        raise subprocess.TimeoutExpired("python", timeout)

    monkeypatch.setattr(audit.subprocess, "run", hang)
    (check,) = check_service(run)
    assert (CheckState.WARNING, True) == (check.state, "no answer in 60 s" in check.found)


def test_a_bad_setting_is_named(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that looks reads the same environment as all others."""
    monkeypatch.setenv("VITASCOPE_S3__BUCKET", "x")
    with pytest.raises(AuditFailed, match="VITASCOPE_S3__BUCKET"):
        audit.audit(find_service(run) or {})


def test_a_service_in_order_is_one_line() -> None:
    """Nothing to mend."""
    (check,) = list_findings(IN_ORDER)
    assert (CheckState.OK, "") == (check.state, check.fix)


def test_each_finding_says_how_much_and_which() -> None:
    """And what to do about it."""
    names = tuple(f"outputs/{number}" for number in range(10))
    survey = Survey(
        orphans=(Findings(kind="object", count=12, bytes=2_500_000, names=names), Findings(kind="copy")),
        stalled=Findings(kind="job without an event", count=1, names=("vitascope.x",)),
        is_complete=False,
    )
    found = list_findings(survey)
    assert [CheckState.WARNING] * 3 == [check.state for check in found]
    assert f"object: 12, 2.50 MB; {', '.join(names)} and 2 more" == found[0].found
    assert "job without an event: 1; vitascope.x" == found[1].found
    assert "rebuilt" in found[2].found
    assert all(check.fix for check in found)


def test_doctor_looks_at_the_service_too(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After all that it looks at anyway."""
    looked = Check("x", CheckState.OK, "fine")
    for name in ("check_python", "check_demo_model"):
        monkeypatch.setattr(checks, name, lambda: looked)
    for name in ("check_import", "check_program", "check_folder", "check_port"):
        monkeypatch.setattr(checks, name, lambda *_: looked)
    monkeypatch.setattr(checks, "audit", lambda _: IN_ORDER)
    assert "no orphans" in checks.run_checks(run)[-1].found
