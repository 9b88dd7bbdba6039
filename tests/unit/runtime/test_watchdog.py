"""The watchdog against a clock that the test moves: what counts as silence, and what does not."""

import threading
from collections.abc import Iterator

import pytest

from vitascope.contracts.deadlines import STALL_FLOOR_S, STALL_STEPS, StageLimits
from vitascope.contracts.failures import Failure, FailureCode
from vitascope.contracts.flow import Stage
from vitascope.runtime import stage, stage_run
from vitascope.runtime.stage import Pulse
from vitascope.runtime.watchdog import LOOK_MAX_S, Watchdog

BEAT_S = stage_run.BEAT_S
LIMITS = StageLimits(step_s=1.0, first_s=600.0, limit_s=2000.0)


class Run:
    """A pulse, its watchdog, and the machine's clock."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.pulse = Pulse()
        self.pulse.expect(LIMITS)
        self.watchdog = Watchdog(self.pulse, Stage.DENOISE, self.now_s)

    def pass_time(self, seconds: float) -> Failure | None:
        """Time passes, and the watchdog looks every beat; the first thing that it has to say."""
        until_s = self.now_s + seconds
        while self.now_s < until_s:
            self.now_s = min(self.now_s + BEAT_S, until_s)
            if failure := self.watchdog.look(self.now_s):
                return failure
        return None

    def step(self, seconds: float) -> Failure | None:
        failure = self.pass_time(seconds)
        self.pulse.touch()
        return failure


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    made = Run()
    with monkeypatch.context() as patched:
        patched.setattr(stage.time, "monotonic", lambda: made.now_s)
        yield made


def test_preparation_has_the_longer_allowance(run: Run) -> None:
    """Before the first step nothing is said for ten minutes, and then it is."""
    assert run.pass_time(LIMITS.first_s - BEAT_S) is None
    failure = run.pass_time(BEAT_S)
    assert failure is not None
    assert FailureCode.STAGE_STALLED is failure.code
    assert failure.stage == "denoise"
    assert "No step for 600 s, of which 600 s are allowed." in failure.message


def test_silence_is_measured_by_the_pace(run: Run) -> None:
    """Steps of 20 s: 200 s of silence are too many, 190 are not; seen within one more beat."""
    for _ in range(3):
        assert run.step(20.0) is None
    assert run.pass_time(STALL_STEPS * 20.0 - BEAT_S) is None
    assert run.pass_time(2 * BEAT_S) is not None


def test_first_step_does_not_set_the_pace(run: Run) -> None:
    """It has the preparation in it: the second step still has the longer allowance, the third has not."""
    run.step(300.0)
    assert run.step(500.0) is None
    for _ in range(4):
        run.step(1.0)
    assert run.pass_time(STALL_FLOOR_S - BEAT_S) is None
    assert run.pass_time(2 * BEAT_S) is not None


def test_run_that_gets_slower_is_not_hung(run: Run) -> None:
    """A step that takes nine times as long as the others is only slow."""
    for seconds in (10.0, 10.0, 10.0, 90.0, 90.0, 90.0, 800.0):
        assert run.step(seconds) is None


def test_new_series_has_the_longer_allowance_again(run: Run) -> None:
    """Decode in smaller tiles, the end of a file: what follows has another pace."""
    for _ in range(5):
        run.step(1.0)
    run.pulse.begin()
    assert run.pass_time(LIMITS.first_s - BEAT_S) is None
    assert run.pass_time(2 * BEAT_S) is not None


def test_waiting_is_neither_silence_nor_time(run: Run) -> None:
    """A server that is away for an hour ends no run, and its hour is no part of the run's limit or of a step."""
    for _ in range(5):
        run.step(1.0)
    worked_s = run.watchdog.worked_s
    with run.pulse.waiting():
        assert run.pass_time(3600.0) is None
    assert worked_s == run.watchdog.worked_s
    assert STALL_FLOOR_S == run.pulse.stall_s
    run.step(1.0)
    assert STALL_FLOOR_S == run.pulse.stall_s
    assert run.pass_time(STALL_FLOOR_S + BEAT_S) is not None


def test_wait_of_another_thread_is_part_of_the_step(run: Run) -> None:
    """Chunks are stored beside the decoder: its own pace stays what it is."""
    run.step(1.0)
    run.pass_time(30.0)

    def store() -> None:
        with run.pulse.waiting():
            pass

    storing = threading.Thread(target=store)
    storing.start()
    storing.join()
    run.step(10.0)
    assert STALL_STEPS * 40.0 == run.pulse.stall_s


def test_waits_may_overlap(run: Run) -> None:
    """The work waits until the last of them is over."""
    with run.pulse.waiting():
        with run.pulse.waiting():
            pass
        assert run.pulse.is_waiting
    assert not run.pulse.is_waiting


def test_run_that_makes_steps_for_ever_times_out(run: Run) -> None:
    """However busily: past its limit it has failed, with the code of that."""
    failure = None
    while failure is None:
        failure = run.step(20.0)
    assert FailureCode.STAGE_TIMED_OUT is failure.code
    assert LIMITS.limit_s == pytest.approx(run.watchdog.worked_s, abs=BEAT_S)


@pytest.mark.parametrize("stopped_s", [60.0, 700.0, 86_400.0])
def test_stopped_process_finds_its_run_innocent(run: Run, stopped_s: float) -> None:
    """SIGSTOP, SIGCONT: the clock ran on, the run could not. The first look says nothing, and the run goes on."""
    for _ in range(5):
        run.step(1.0)
    run.now_s += stopped_s
    assert run.watchdog.look(run.now_s) is None
    assert run.watchdog.worked_s <= 5.0 + LOOK_MAX_S
    for _ in range(5):
        assert run.step(5.0) is None


def test_run_that_hangs_after_a_stop_is_still_found(run: Run) -> None:
    """Being stopped once is no excuse for ever."""
    for _ in range(5):
        run.step(1.0)
    run.now_s += 700.0
    assert run.watchdog.look(run.now_s) is None
    assert run.pass_time(STALL_FLOOR_S + BEAT_S) is not None
