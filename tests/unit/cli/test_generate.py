"""Who stops waiting for `generate` cancels its job, unless told otherwise."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vitascope.cli import generate
from vitascope.cli.exits import CommandError, Exit
from vitascope.cli.generate import Wish, generate_video, stop_signals_as_interrupt, submit_and_follow

JOB = {"id": "vj_1", "status": "running", "step": 3, "steps": 20}
WISH = Wish("a red circle")


def press_ctrl_c() -> None:
    raise KeyboardInterrupt


class WaitingService:
    """Accepts a job, of which nothing is heard any more but what the test does meanwhile.

    Attributes:
        keys: the Idempotency-Key of each request for a job.
        cancelled: jobs that were cancelled.
    """

    def __init__(self, *, submitting: Callable[[], None] | None = None, following: Callable[[], None]) -> None:
        self._submitting, self._following = submitting, following
        self.keys: list[str] = []
        self.cancelled: list[str] = []
        self.refusal: CommandError | None = None
        self.cancelling: Callable[[], None] = lambda: None

    def submit(self, _body: dict[str, Any], key: str) -> dict[str, Any]:
        self.keys.append(key)
        if self._submitting and len(self.keys) == 1:
            self._submitting()
        return JOB

    def follow(self, _job: str) -> Any:
        self._following()
        raise AssertionError("the wait goes on")

    def cancel(self, job: str) -> dict[str, Any]:
        self.cancelling()
        if self.refusal:
            raise self.refusal
        self.cancelled.append(job)
        return JOB


def interrupt(service: Any, *, keeps: bool = False) -> None:
    with pytest.raises(KeyboardInterrupt):
        submit_and_follow(service, WISH, lambda _: None, keeps=keeps)


def test_ctrl_c_cancels() -> None:
    """Nobody waits for the video any more."""
    service = WaitingService(following=press_ctrl_c)
    interrupt(service)
    assert ["vj_1"] == service.cancelled


def test_ctrl_c_under_way_cancels_what_was_asked_for() -> None:
    """The answer with the id did not come; asked again with the same key, the job is known, and only one was made."""
    service = WaitingService(submitting=press_ctrl_c, following=press_ctrl_c)
    interrupt(service)
    assert (["vj_1"], 2, 1) == (service.cancelled, len(service.keys), len(set(service.keys)))


@pytest.mark.parametrize("under_way", [True, False])
def test_kept_job_goes_on_and_is_named(capsys: pytest.CaptureFixture[str], *, under_way: bool) -> None:
    """The user comes back to it with the command that is printed."""
    service = WaitingService(submitting=press_ctrl_c if under_way else None, following=press_ctrl_c)
    interrupt(service, keeps=True)
    assert ([], True) == (service.cancelled, "vitascope jobs watch vj_1" in capsys.readouterr().err)


def test_job_that_has_just_ended_is_no_error() -> None:
    """The interrupt alone is what the command ends with."""
    service = WaitingService(following=press_ctrl_c)
    service.refusal = CommandError(Exit.REJECTED, "ended", word="not_cancellable")
    interrupt(service)


def test_failed_cancel_says_that_the_job_may_go_on() -> None:
    """And how to end it."""
    service = WaitingService(following=press_ctrl_c)
    service.refusal = CommandError(Exit.UNREACHABLE, "no answer from http://x", why="refused")
    with pytest.raises(CommandError, match="job vj_1 may go on: no answer") as raised:
        submit_and_follow(service, WISH, lambda _: None)  # type: ignore[arg-type]  # the calls that it makes
    error = raised.value
    assert (Exit.UNREACHABLE, "refused", True) == (error.code, error.why, "jobs cancel vj_1" in error.fix)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=["terminated", "terminal-closed"])
def test_stop_signals_cancel_like_ctrl_c(number: signal.Signals) -> None:
    """Once: a second one does not disturb the cancelling. Afterwards the signals mean what they did before."""
    service = WaitingService(following=lambda: os.kill(os.getpid(), number))
    service.cancelling = lambda: os.kill(os.getpid(), number)
    before = signal.signal(number, signal.SIG_DFL)  # the tests themselves may run under `nohup`
    try:
        with stop_signals_as_interrupt():
            interrupt(service)
        assert signal.SIG_DFL is signal.getsignal(number)
    finally:
        signal.signal(number, before)
    assert ["vj_1"] == service.cancelled


def test_ignored_signal_stays_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under `nohup` the end of the terminal means nothing."""
    monkeypatch.setattr(generate, "STOP_SIGNALS", (signal.SIGHUP,))
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_signals_as_interrupt():
            os.kill(os.getpid(), signal.SIGHUP)
        assert signal.SIG_IGN is signal.getsignal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_keep_starts_no_service_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It would end with the command, and the job with it."""
    monkeypatch.delenv("VITASCOPE_URL", raising=False)
    monkeypatch.setenv("VITASCOPE_DATA", str(tmp_path))
    monkeypatch.setattr(generate, "find_or_start_client", lambda _: pytest.fail("a service is started"))
    with pytest.raises(CommandError) as raised:
        generate_video(WISH, tmp_path / "out.mp4", keeps=True, as_json=True)
    assert (Exit.UNREACHABLE, True) == (raised.value.code, "vitascope up" in raised.value.fix)
