"""What commands print, for people, programs and pipes."""

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from vitascope import __version__
from vitascope.cli import app, jobs, offers, service, show
from vitascope.cli.exits import CommandError, Exit
from vitascope.cli.show import format_cell, print_error, print_table

LONG = "a red circle [bold]moving[/] " * 10
JOB = {
    "id": "vj_01KDVDNA00W52FRFC30J36F36P", "object": "video.job", "status": "succeeded", "prompt": LONG, "width": 64,
    "height": 64, "num_frames": 5, "fps": 8, "seed": 7, "step": 4, "steps": 4, "generate_sound": False,
    "labels": {}, "error": None,
    "result": {"sha256": "ab", "video_url": "http://x/" + "y" * 300, "rows": [1, {"a": 2}]},
}  # fmt: skip
MODEL = {
    "id": "tiny-wan", "title": "Tiny", "is_default": True, "tasks": ["t2v"], "has_sound": False,
    "defaults": {"width": 64, "height": 64, "num_frames": 17, "fps": 8, "num_inference_steps": 20,
                 "guidance_scale": 4.0},
    "limits": {"min_steps": 1, "max_steps": 200, "max_guidance": 20.0, "min_fps": 1, "max_fps": "24000/1001"},
    "buckets": [{"name": "s", "size": "64x64", "num_frames": 17, "price_units": 0.98}],
}  # fmt: skip
Run = Callable[..., tuple[Any, str]]


class FakeClient:
    """A service with one job and one model."""

    url = "http://service"
    retry_status = "decoding"

    def list(self, **_: object) -> dict[str, Any]:
        return {"data": [JOB], "has_more": False}

    def get(self, _: str) -> dict[str, Any]:
        return JOB

    def retry(self, _: str) -> dict[str, Any]:
        return {**JOB, "id": "vj_2", "status": self.retry_status, "reason": "Retry of vj_1: [it] was kept."}

    def preempt(self, job: str) -> dict[str, Any]:
        return {**JOB, "id": job, "status": "running", "preempt_requested": True}

    def models(self) -> dict[str, Any]:
        return {"data": [MODEL]}

    def readiness(self) -> tuple[bool, dict[str, Any]]:
        return False, {"checks": {"nats": True, "store": False}}


@pytest.fixture(autouse=True)
def _service(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (jobs, offers, service):
        monkeypatch.setattr(module, "find_client", FakeClient)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """A terminal of 80 columns that can be read."""
    screen = io.StringIO()
    monkeypatch.setenv("TERM", "xterm")  # a terminal called dumb has 80 columns, whatever it is told
    console = Console(file=screen, force_terminal=True, width=80, color_system=None)
    for module in (show, jobs, offers):
        monkeypatch.setattr(module, "out", console)
    return screen


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command line in this process: exit status and standard output."""

    def call(*arguments: str) -> tuple[Any, str]:
        monkeypatch.setattr(sys, "argv", ["vitascope", *arguments])
        with pytest.raises(SystemExit) as ended:
            app.main()
        return ended.value.code, capsys.readouterr().out

    return call


def test_piped_list_has_a_line_a_job(run: Run) -> None:
    """All of every cell, with a tab between two."""
    status, text = run("jobs", "list")
    heads, row = (line.split("\t") for line in text.splitlines())
    assert (0, ["job", "status", "step", "size", "frames", "prompt"]) == (status, heads)
    assert [JOB["id"], "succeeded", "4/4", "64x64", "5", LONG.strip()] == row


def test_list_on_a_terminal_shortens_the_prompt_only(terminal: io.StringIO, run: Run) -> None:
    """A line a job within the width; the id is whole."""
    run("jobs", "list")
    _, row = terminal.getvalue().splitlines()
    assert (True, True, True) == (len(row) <= 80, row.startswith(JOB["id"]), row.endswith("…"))  # type: ignore[arg-type]  # text


def test_narrow_terminal_does_not_fold(monkeypatch: pytest.MonkeyPatch, terminal: io.StringIO) -> None:
    """Ids can be copied from a terminal of any width."""
    monkeypatch.setattr(show.out, "_width", 10)
    print_table(("job", "prompt"), [(JOB["id"], "x" * 50)], shortens=True)
    assert f"{JOB['id']}  {'x' * 15}…" == terminal.getvalue().splitlines()[1]


def test_show_names_inner_fields(run: Run) -> None:
    """A line a field, what is absent left out, nothing as Python writes it."""
    _, text = run("jobs", "show", "vj_1")
    shown = dict(line.split("\t") for line in text.splitlines())
    assert ("ab", '[1,{"a":2}]', "false") == (shown["result.sha256"], shown["result.rows"], shown["generate_sound"])
    assert (JOB["result"]["video_url"], False) == (shown["result.video_url"], "error" in shown)  # type: ignore[index]  # a dict


def test_show_on_a_terminal_keeps_addresses_whole(terminal: io.StringIO, run: Run) -> None:
    """A URL is one line, however long."""
    run("jobs", "show", "vj_1")
    assert any(line.endswith("y" * 300) for line in terminal.getvalue().splitlines())


@pytest.mark.parametrize(
    ("expected", "value"), [("-", None), ("-", ""), ("a b", "a\n\tb"), ("a [31mb", "a\x1b[31mb"), ("1.5", 1.5)]
)
def test_cells_are_one_line(expected: str, value: object) -> None:
    """No text of a job can move the cursor or break a row."""
    assert expected == format_cell(value)


def test_models_show_defaults_and_limits(run: Run) -> None:
    """What a request may leave out, and how far it may go."""
    _, text = run("models")
    assert "tiny-wan (default)  Tiny" in text
    assert "tasks     t2v" in text
    assert "defaults  64x64, 17 frames, 8 fps, 20 steps, guidance 4.0" in text
    assert "limits    steps 1 to 200, fps 1 to 24000/1001, guidance 0 to 20.0" in text
    assert "s\t64x64\t17\t0.98" in text


def test_status_says_what_is_missing(run: Run) -> None:
    """In words, with the status of a service that is not ready."""
    status, text = run("status", "--json")
    error = json.loads(text.splitlines()[1])
    assert (Exit.NOT_READY, "missing: store") == (status, error["why"])


def test_errors_are_shown_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    """The code comes last; brackets are no markup."""
    print_error(CommandError(Exit.REJECTED, "no [/red] model", why="field model", fix="List them.", word="not_found"))
    assert "error: no [/red] model (not_found)\n  why: field model\n  fix: List them.\n" == capsys.readouterr().err


@pytest.mark.parametrize(
    ("status", "hint"),
    [("decoding", "jobs watch vj_2"), ("failed", "jobs retry vj_2"), ("succeeded", "jobs show vj_2")],
)
def test_retry_names_the_new_job(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], status: str, hint: str
) -> None:
    """With where it starts and, since it may have been made long ago, what one can do with it now."""
    monkeypatch.setattr(FakeClient, "retry_status", status)
    monkeypatch.setattr(sys, "argv", ["vitascope", "jobs", "retry", "vj_1"])
    with pytest.raises(SystemExit) as ended:
        app.main()
    said = capsys.readouterr()
    assert (0, f"vj_2 {status} Retry of vj_1: [it] was kept.\n") == (ended.value.code, said.out)
    assert hint in said.err


def test_retry_for_programs_is_the_new_job(run: Run) -> None:
    """One object."""
    assert "vj_2" == json.loads(run("jobs", "retry", "vj_1", "--json")[1])["id"]


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["people", "programs"])
def test_watched_retry_follows_the_new_job(monkeypatch: pytest.MonkeyPatch, run: Run, form: tuple[str, ...]) -> None:
    """To its end, whose status is the command's."""
    ends = {"status": "failed", "error": {"code": "decode_failed", "message": "Again.", "stage": "decode"}}
    monkeypatch.setattr(jobs, "follow_job", lambda _client, job, show: (show(job), {**job, **ends})[1])
    status, text = run("jobs", "retry", "vj_1", "--watch", *form)
    assert (Exit.FAILED, True) == (status, "vj_2" in text.splitlines()[0])


def test_preempt_says_what_comes(run: Run) -> None:
    """And for programs, the job."""
    assert (0, "vj_1 running gives up its GPU group at the next step\n") == run("jobs", "preempt", "vj_1")
    assert json.loads(run("jobs", "preempt", "vj_1", "--json")[1])["preempt_requested"] is True


def test_fetch_looks_at_the_file_first(run: Run, tmp_path: Path) -> None:
    """The client of this test could not download."""
    assert Exit.USAGE is run("jobs", "fetch", "vj_1", "-o", str(tmp_path / "no" / "x"))[0]


@pytest.mark.parametrize("arguments", [("--version",), ("version",)], ids=["option", "command"])
def test_version(run: Run, arguments: tuple[str, ...]) -> None:
    """Both spellings print one line."""
    assert (0, f"{__version__}\n") == run(*arguments)


def test_version_for_programs(run: Run) -> None:
    """As JSON."""
    assert {"version": __version__} == json.loads(run("version", "--json")[1])


def test_wrong_command_line_is_json_too(run: Run) -> None:
    """Programs read one object for each error."""
    status, text = run("jobs", "list", "--limit", "many", "--json")
    assert (Exit.USAGE, "error", 2) == (status, json.loads(text)["event"], json.loads(text)["exit"])


@pytest.mark.parametrize(
    ("variable", "value"),
    [("VITASCOPE_DENOISE__MIN_STEP_S", "-1"), ("VITASCOPE_NATS", "{")],
    ids=["out of range", "text for a group"],
)
def test_bad_setting_is_found_before_anything_starts(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str, value: str
) -> None:
    """The error names the variable, and no folder is made."""
    monkeypatch.setenv(variable, value)
    status, text = run("up", "--data", str(tmp_path / "d"), "--json")
    assert (Exit.USAGE, True) == (
        status,
        variable.lower().removeprefix("vitascope_") in json.loads(text)["why"].lower(),
    )
    assert [] == list(tmp_path.iterdir())
