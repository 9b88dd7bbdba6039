"""Following a job, and what its end means for the exit status."""

import os
import time
from typing import Any

import pytest

from vitascope.cli.exits import CommandError, Exit
from vitascope.cli.follow import follow_job, merge, raise_unless_succeeded
from vitascope.cli.generate import Wish, check_writable, read_fps
from vitascope.cli.show import describe_pace, describe_stages, format_seconds

RUNNING = {"id": "vj_1", "status": "running", "stage": "denoise", "step": 3, "steps": 20, "step_s": 0.5, "error": None}


class ScriptedService:
    """A service that goes away and comes back as a test says."""

    def __init__(self, *acts: Any) -> None:
        self._acts = list(acts)

    def follow(self, job: str) -> Any:
        assert job == RUNNING["id"]
        act = self._acts.pop(0)
        if isinstance(act, Exception):
            raise act
        yield from (("", "status", data) for data in act)

    def get(self, job: str) -> dict[str, Any]:
        return {**RUNNING, "id": job, "status": "succeeded"} if not self._acts else {**RUNNING, "id": job}


def test_follows_through_a_restart_of_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    """An outage is waited out; each newer state is shown once it is known."""
    monkeypatch.setattr(time, "sleep", lambda _: None)
    away = CommandError(Exit.UNREACHABLE, "gone")
    busy = CommandError(Exit.NOT_READY, "the service answered 502")
    service = ScriptedService(['{"step": 4}'], away, busy, ['{"status": "succeeded"}'])
    seen: list[dict[str, Any]] = []
    job = follow_job(service, dict(RUNNING), seen.append)  # type: ignore[arg-type]  # the three calls it makes
    assert "succeeded" == job["status"]
    assert [3, 4] == [state["step"] for state in seen[:2]]


def test_gives_up_on_a_service_that_stays_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """After two minutes; the job goes on without us."""
    now = iter(range(0, 100_000, 60))
    monkeypatch.setattr(time, "sleep", lambda _: None)
    monkeypatch.setattr(time, "monotonic", lambda: float(next(now)))
    service = ScriptedService(*[CommandError(Exit.UNREACHABLE, "gone")] * 10)
    with pytest.raises(CommandError, match="gone"):
        follow_job(service, dict(RUNNING), lambda _: None)  # type: ignore[arg-type]  # as above


@pytest.mark.parametrize("event", ["<html>", "[1]"])
def test_event_that_is_none_ends_the_command(event: str) -> None:
    """What the API does not say is not shown as a state of the job."""
    with pytest.raises(CommandError, match="not of the vitascope API") as raised:
        follow_job(ScriptedService([event]), dict(RUNNING), lambda _: None)  # type: ignore[arg-type]  # as above
    assert Exit.REJECTED is raised.value.code


def test_another_stage_counts_other_units() -> None:
    """Steps of denoise are not shown as frames of decode."""
    merged = merge(RUNNING, {"status": "decoding", "stage": "decode"})
    assert (None, None, None) == (merged["step"], merged["steps"], merged["step_s"])
    assert 4 == merge(RUNNING, {"stage": "denoise", "step": 4})["step"]


@pytest.mark.parametrize(
    ("code", "status"),
    [(Exit.FAILED, "failed"), (Exit.FAILED, "withheld"), (Exit.CANCELLED, "cancelled"), (Exit.FAILED, "expired")],
)
def test_exit_status_of_an_end(code: Exit, status: str) -> None:
    """Programs can tell a cancelled job from a failed one."""
    job = {"id": "vj_1", "status": status, "error": {"code": "denoise_failed", "message": "It broke."}}
    with pytest.raises(CommandError, match="It broke") as raised:
        raise_unless_succeeded(job)
    assert code is raised.value.code
    raise_unless_succeeded({"id": "vj_1", "status": "succeeded"})


@pytest.mark.parametrize(
    ("expected", "text"), [(8, "8"), (23.976, "23.976"), ("24000/1001", "24000/1001"), ("fast", "fast"), ("nan", "nan")]
)
def test_rates_are_sent_as_they_are_meant(expected: object, text: str) -> None:
    """A fraction stays a fraction; what is no rate is left for the service to refuse."""
    assert expected == read_fps(text)


def test_wish_sends_only_what_was_said() -> None:
    """Defaults are the service's."""
    assert {"prompt": "x", "fps": 8, "steps": 4} == Wish(prompt="x", fps="8", steps=4).to_body()


def test_unwritable_file_is_found_before_any_work(tmp_path: Any) -> None:
    """A folder, or a folder that is not there."""
    for output in (tmp_path, tmp_path / "no" / "a.mp4"):
        with pytest.raises(CommandError) as raised:
            check_writable(output)
        assert Exit.USAGE is raised.value.code
    check_writable(tmp_path / "a.mp4")


def test_folder_without_permission_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """A folder that the user may not write to."""
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(CommandError) as raised:
        check_writable(tmp_path / "a.mp4")
    assert "not writable" in raised.value.why


def test_pace_and_stages_in_words() -> None:
    """What stands beside the progress bar and under the result."""
    assert "2.00 steps/s, 1 min 5 s left" == describe_pace({**RUNNING, "remaining_s": 65.0})
    assert "denoise 1.5 s, encode 2 h 0 min" == describe_stages(
        {"result": {"stage_seconds": {"denoise": 1.5, "encode": 7200}}}
    )
    assert "" == describe_stages({"result": None})
    assert "59.9 s" == format_seconds(59.9)
