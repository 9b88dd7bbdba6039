"""Children are started in order, kept up, given up on, and stopped in reverse order. Real processes."""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from children import Reports, is_running
from vitascope.local import child
from vitascope.local.child import ChildSpec, compute_log_path
from vitascope.local.errors import ChildFailedError
from vitascope.local.folder import DataFolder
from vitascope.local.keeper import ChildState, Restarts
from vitascope.local.supervisor import Supervisor

AT_ONCE = Restarts(max_failures=3, first_delay_s=0.0)
SLEEP = "import time; time.sleep(600)"
WRITE_FILE_AND_SLEEP = "open('up', 'w').close(); import time; time.sleep(600)"
IGNORE_SIGTERM = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + WRITE_FILE_AND_SLEEP


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


def probe_file(path: Path) -> Callable[[], Awaitable[bool]]:
    async def is_ready() -> bool:
        return await asyncio.to_thread(path.exists)

    return is_ready


def get_pids(supervisor: Supervisor) -> list[int]:
    return [report.pid for report in supervisor.reports() if report.pid is not None]


async def test_group_runs_until_it_is_stopped(folder: DataFolder) -> None:
    """All of a group are up when start returns, in sessions of their own; after the stop none is left."""
    async with Supervisor(folder) as supervisor:
        await supervisor.start(*(ChildSpec(name=name, argv=python(SLEEP)) for name in "ab"))
        pids = get_pids(supervisor)
        assert [("a", "ready"), ("b", "ready")] == [(report.child, report.state) for report in supervisor.reports()]
        assert pids == [os.getsid(pid) for pid in pids]
    assert [("a", "stopped"), ("b", "stopped")] == [(report.child, report.state) for report in supervisor.reports()]
    assert [False, False] == [is_running(pid) for pid in pids]


async def test_environment_and_output_of_a_child(folder: DataFolder) -> None:
    """A child sees what it was given over what it inherits; all it says is in its log when it has been stopped."""
    code = "import os, sys; print(os.environ['PLACE'], len(os.environ) > 2); print('oops', file=sys.stderr); "
    spec = ChildSpec(
        name="talker",
        argv=python(code + WRITE_FILE_AND_SLEEP),
        env={"PLACE": "here", "PYTHONUNBUFFERED": "1"},
        cwd=folder.path,
        is_ready=probe_file(folder.path / "up"),
    )
    async with Supervisor(folder) as supervisor:
        await supervisor.start(spec)
    assert compute_log_path(folder, "talker").read_text() == "here True\noops\n"


@pytest.mark.parametrize(
    ("reason", "sent"),
    [
        pytest.param("was ended by SIGKILL", signal.SIGKILL, id="killed"),
        pytest.param("was ended by SIGTERM", signal.SIGTERM, id="told-to-end-by-a-stranger"),
    ],
)
async def test_child_that_ends_is_reported_and_started_again(
    folder: DataFolder, reports: Reports, reason: str, sent: signal.Signals
) -> None:
    """An end that nobody here asked for is noticed, named and mended."""
    async with Supervisor(folder, restarts=AT_ONCE, on_report=reports) as supervisor:
        await supervisor.start(ChildSpec(name="a", argv=python(SLEEP)))
        first = await reports.wait_for("a", ChildState.READY)
        assert first.pid is not None
        os.kill(first.pid, sent)
        ended = await reports.wait_for("a", ChildState.ENDED)
        assert (first.pid, reason) == (ended.pid, ended.reason)
        second = await reports.wait_for("a", ChildState.READY)
        assert second.pid is not None
        assert second.pid != first.pid
        assert is_running(second.pid)


async def test_hung_child_is_replaced(folder: DataFolder, reports: Reports, monkeypatch: pytest.MonkeyPatch) -> None:
    """A child that runs but no longer answers is ended and started again; one refusal alone is forgiven."""
    monkeypatch.setattr(child, "LIVE_INTERVAL_S", 0.01)
    answers = iter([True, False, True, *[False] * child.LIVE_MISSES])
    spec = ChildSpec(name="a", argv=python(SLEEP), is_live=lambda: answer_next(answers))
    async with Supervisor(folder, restarts=AT_ONCE, on_report=reports) as supervisor:
        await supervisor.start(spec)
        first = get_pids(supervisor)
        ended = await reports.wait_for("a", ChildState.ENDED)
        await reports.wait_for("a", ChildState.READY)
        assert f"did not answer {child.LIVE_MISSES} times in a row" == ended.reason
        assert first != get_pids(supervisor)
        assert [False] == [is_running(pid) for pid in first]
        assert [] == list(answers)


async def test_child_that_cannot_be_mended_is_not_started_again(folder: DataFolder, reports: Reports) -> None:
    """Its status says that another start would end the same way: the run fails at once."""
    async with Supervisor(folder, on_report=reports) as supervisor:
        with pytest.raises(ChildFailedError, match="cannot work as it is set up"):
            await supervisor.start(
                ChildSpec(name="a", argv=python(f"exit({os.EX_CONFIG})"), is_ready=probe_file(Path("/nowhere")))
            )
    assert [ChildState.STARTED, ChildState.FAILED] == [report.state for report in reports.seen][:2]


async def answer_next(answers: Iterator[bool]) -> bool:
    return next(answers, True)


@pytest.mark.parametrize(
    ("message", "argv", "is_ready_deadline_s"),
    [
        pytest.param(
            "ended with status 3, after 3 tries.*broken pipe fitter", "print('broken pipe fitter'); exit(3)", 60
        ),
        pytest.param("ended with status 0, after 3 tries", "pass", 60),
        pytest.param("was not ready within 0.3 s, after 3 tries", SLEEP, 0.3),
    ],
    ids=["fails", "ends-cleanly", "never-ready"],
)
async def test_start_fails_when_a_child_does_not_come_up(
    folder: DataFolder, message: str, argv: str, is_ready_deadline_s: float
) -> None:
    """After the last try the error holds the reason and the end of the log; the rest of the group is stopped."""
    spec = ChildSpec(
        name="bad",
        argv=python(argv),
        is_ready=probe_file(folder.path / "never"),
        ready_deadline_s=is_ready_deadline_s,
    )
    async with Supervisor(folder, restarts=AT_ONCE) as supervisor:
        with pytest.raises(ChildFailedError, match=rf"(?s)bad does not stay up.*{message}"):
            await supervisor.start(spec, ChildSpec(name="good", argv=python(SLEEP)))
        assert ["failed", "ready"] == [report.state for report in supervisor.reports()]
        pids = get_pids(supervisor)
    assert [False, False] == [is_running(pid) for pid in pids]


async def test_missing_program_is_named(folder: DataFolder) -> None:
    """A program that is not there fails the start with its path."""
    async with Supervisor(folder, restarts=AT_ONCE) as supervisor:
        with pytest.raises(ChildFailedError, match=r"(?s)/nowhere/at-all cannot be run: No such file"):
            await supervisor.start(
                ChildSpec(name="bad", argv=("/nowhere/at-all",), is_ready=probe_file(folder.path / "never"))
            )


async def test_later_failure_reaches_the_owner(folder: DataFolder, reports: Reports) -> None:
    """A child that was ready once and then fails again and again ends the wait of the supervisor's owner."""
    flag = folder.path / "may-run"
    flag.touch()
    code = f"import os, time\nwhile os.path.exists({str(flag)!r}): time.sleep(0.05)\nexit('the flag is gone')"
    async with Supervisor(folder, restarts=AT_ONCE, on_report=reports) as supervisor:
        await supervisor.start(ChildSpec(name="a", argv=python(code)))
        flag.unlink()
        with pytest.raises(ChildFailedError, match=r"(?s)a does not stay up: it ended with status 1.*the flag is gone"):
            await asyncio.wait_for(supervisor.wait_failed(), 30)
    assert [ChildState.ENDED, ChildState.ENDED, ChildState.FAILED] == [
        report.state for report in reports.seen if report.reason is not None
    ]


async def test_groups_stop_in_reverse_order(folder: DataFolder, reports: Reports) -> None:
    """What was started last is gone before what it may need is told to end."""
    async with Supervisor(folder, on_report=reports) as supervisor:
        for name in ("servers", "stages", "door"):
            await supervisor.start(ChildSpec(name=name, argv=python(SLEEP)))
    assert ["door", "stages", "servers"] == [r.child for r in reports.seen if r.state is ChildState.STOPPED]


async def test_child_that_ignores_sigterm_is_killed(folder: DataFolder) -> None:
    """Its grace period bounds the stop."""
    spec = ChildSpec(
        name="stubborn",
        argv=python(IGNORE_SIGTERM),
        cwd=folder.path,
        is_ready=probe_file(folder.path / "up"),
        grace_s=0.2,
    )
    async with Supervisor(folder) as supervisor:
        await supervisor.start(spec)
        (pid,) = get_pids(supervisor)
    assert not is_running(pid)


async def test_stop_may_be_called_by_several_and_again(folder: DataFolder, reports: Reports) -> None:
    """All callers return after the one stop."""
    supervisor = await Supervisor(folder, on_report=reports).__aenter__()
    await supervisor.start(ChildSpec(name="a", argv=python(SLEEP)))
    await asyncio.gather(supervisor.stop(), supervisor.stop())
    await supervisor.stop()
    assert ["a"] == [report.child for report in reports.seen if report.state is ChildState.STOPPED]


async def test_cancelled_stop_still_stops(folder: DataFolder) -> None:
    """Who is cancelled while stopping leaves when nothing runs any more, and is cancelled then."""
    supervisor = await Supervisor(folder).__aenter__()
    await supervisor.start(
        ChildSpec(
            name="slow",
            argv=python(IGNORE_SIGTERM),
            cwd=folder.path,
            is_ready=probe_file(folder.path / "up"),
            grace_s=0.5,
        )
    )
    (pid,) = get_pids(supervisor)
    stopping = asyncio.create_task(supervisor.stop())
    await asyncio.wait({stopping}, timeout=0.1)
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping
    assert not is_running(pid)


async def test_cancelled_start_leaves_nothing(folder: DataFolder, reports: Reports) -> None:
    """Ctrl-C while a group comes up stops what has come up so far."""

    async def run() -> None:
        async with Supervisor(folder, on_report=reports) as supervisor:
            await supervisor.start(
                ChildSpec(name="a", argv=python(SLEEP), is_ready=probe_file(folder.path / "never")),
            )

    running = asyncio.create_task(run())
    started = await reports.wait_for("a", ChildState.STARTED)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert started.pid is not None
    assert not is_running(started.pid)
