"""The command line as a user types it."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline import PROMPT, Up, run_vitascope


def generate(up: Up, output: Path, *more: str) -> subprocess.CompletedProcess[str]:
    quick = ("--size", "64x64", "--frames", "5", "--fps", "8", "--steps", "4", "--guidance", "4", "--seed", "7")
    return up.run_command("generate", PROMPT, *quick, "-o", str(output), *more)


def test_generate_writes_the_file_and_says_so(up: Up, tmp_path: Path) -> None:
    """Progress on standard error, the file and its stages on standard output, status 0."""
    output = tmp_path / "clip.mp4"
    ran = generate(up, output, "--negative", "blurry")
    assert 0 == ran.returncode, ran.stderr
    assert b"ftyp" in output.read_bytes()[:12]
    assert str(output) in ran.stdout.replace("\n", "")
    assert all(stage in ran.stdout for stage in ("denoise", "decode", "encode"))
    assert "4/4" in ran.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_generate_cancels_its_job(up: Up, tmp_path: Path, number: signal.Signals) -> None:
    """Status 130, no file, and the group is free again."""
    wish = (PROMPT, "--steps", "200", "--seed", str(40 + number), "-o", str(tmp_path / "no.mp4"))
    command = [sys.executable, "-m", "vitascope", "generate", *wish]
    with subprocess.Popen(command, env=up.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as waiting:
        assert waiting.stderr is not None
        while "denoising" not in (line := waiting.stderr.readline()):
            assert line, "ended before the job ran"
        waiting.send_signal(number)
        _, said = waiting.communicate(timeout=60)
    assert 130 == waiting.returncode, said
    newest = up.call("GET", "/v1/video-jobs", params={"limit": 1})["data"][0]
    assert (40 + number, "cancelled") == (newest["seed"], newest["status"])
    assert [] == list(tmp_path.iterdir())


def test_generate_json_is_one_object(up: Up, tmp_path: Path) -> None:
    """Programs read one line."""
    ran = generate(up, tmp_path / "clip.mp4", "--json")
    answer = json.loads(ran.stdout)
    assert ("succeeded", 7, 64) == (answer["status"], answer["seed"], answer["width"])
    assert answer["bytes"] == (tmp_path / "clip.mp4").stat().st_size


def test_jobs_commands_agree(up: Up, tmp_path: Path) -> None:
    """list, show, watch, fetch and cancel speak of the same job."""
    job = up.submit()["id"]
    watched = up.run_command("jobs", "watch", job)
    assert (0, True) == (watched.returncode, f"{job} succeeded" in watched.stdout)
    listed = json.loads(up.run_command("jobs", "list", "--json").stdout)
    assert job in [item["id"] for item in listed["data"]]
    assert "succeeded" == json.loads(up.run_command("jobs", "show", job, "--json").stdout)["status"]
    fetched = up.run_command("jobs", "fetch", job, "-o", str(tmp_path / "got.mp4"))
    assert (0, up.content(job)) == (fetched.returncode, (tmp_path / "got.mp4").read_bytes())
    assert 3 == up.run_command("jobs", "cancel", job).returncode


@pytest.mark.parametrize(
    ("status", "arguments", "says"),
    [
        pytest.param(3, ("generate", PROMPT, "--size", "65x64"), "64x64", id="shape: names the nearest"),
        pytest.param(3, ("generate", PROMPT, "--steps", "100000"), "steps", id="steps out of range"),
        pytest.param(3, ("generate", " "), "prompt", id="empty prompt"),
        pytest.param(3, ("generate", PROMPT, "--model", "nope"), "nope", id="unknown model"),
        pytest.param(3, ("generate", PROMPT, "--fps", "nan"), "fps", id="no rate"),
        pytest.param(2, ("generate", PROMPT, "--steps", "many"), "--steps", id="not a number"),
        pytest.param(2, ("generate", PROMPT, "-o", "/nowhere/at/all.mp4"), "/nowhere/at", id="no such folder"),
        pytest.param(3, ("jobs", "show", "vj_00000000000000000000000000"), "no such job", id="unknown job"),
        pytest.param(3, ("jobs", "show", "../../etc"), "", id="no job id at all"),
    ],
)
def test_mistakes_end_with_their_status_and_reason(
    up: Up, tmp_path: Path, status: int, arguments: tuple[str, ...], says: str
) -> None:
    """What is wrong is said, and nothing is written."""
    if arguments[0] == "generate" and "-o" not in arguments:
        arguments = (*arguments, "-o", str(tmp_path / "no.mp4"))
    ran = up.run_command(*arguments)
    assert (status, True) == (ran.returncode, says in ran.stderr), ran.stderr
    assert [] == list(tmp_path.iterdir())
    assert "Traceback" not in ran.stderr


def test_status_and_models(up: Up) -> None:
    """A ready service says so with status 0; the demo model is listed with its shapes."""
    status = up.run_command("status")
    assert (0, True) == (status.returncode, "ready" in status.stdout)
    models = up.run_command("models").stdout
    assert "tiny-wan" in models
    assert "64x64" in models


def test_no_service_is_said() -> None:
    """An address where nothing answers."""
    ran = run_vitascope("jobs", "list", env={"VITASCOPE_URL": "http://127.0.0.1:9", "PATH": ""})
    assert (4, True) == (ran.returncode, "no answer" in ran.stderr)
    assert "fix:" in ran.stderr
