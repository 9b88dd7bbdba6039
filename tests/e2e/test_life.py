"""The life of a run: start, stop, start again, be killed."""

import os
import signal
from pathlib import Path

import psutil
import pytest

from pipeline import PROMPT, Up, run_vitascope, running_up, start_up, stop_up, wait_ready


def is_gone(process: psutil.Process) -> bool:
    """Whether it has ended; one that nobody has waited for yet has ended too."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE or not process.is_running()
    except psutil.NoSuchProcess:
        return True


def test_generate_alone_starts_and_stops_its_own_pipeline(tmp_path: Path) -> None:
    """The README's first command: no service, no setting, one video, nothing left running."""
    env = {**os.environ, "VITASCOPE_DATA": str(tmp_path / "none")}
    before = {process.pid for process in psutil.process_iter()}
    quick = ("--frames", "5", "--steps", "4", "-o", str(tmp_path / "demo.mp4"))
    ran = run_vitascope("generate", PROMPT, *quick, env=env)
    assert 0 == ran.returncode, ran.stderr
    assert b"ftyp" in (tmp_path / "demo.mp4").read_bytes()[:12]
    after = [p for p in psutil.process_iter(["pid", "cmdline"]) if p.pid not in before]
    assert [] == [p.info["cmdline"] for p in after if "vitascope" in " ".join(p.info["cmdline"] or [])]


def test_stop_and_start_go_on_with_the_same_jobs(tmp_path: Path) -> None:
    """Stopped in the middle of a long job, the next run on the folder finishes it and knows the old ones."""
    with running_up(tmp_path, VITASCOPE_DENOISE__MIN_STEP_S="0.5") as first:
        done = first.submit()
        assert "succeeded" == first.wait(done["id"])["status"]
        long = first.submit(steps=40)
        queued = first.submit(seed=8)
        first.wait(long["id"], lambda job: (job.get("step") or 0) >= 3)
        assert 0 == stop_up(first.process, signal.SIGINT)
    with running_up(tmp_path) as second:
        ends = {name: second.wait(job["id"]) for name, job in (("long", long), ("queued", queued))}
        assert {"long": "succeeded", "queued": "succeeded"} == {name: job["status"] for name, job in ends.items()}
        assert "succeeded" == second.get(done["id"])["status"]
        assert second.content(done["id"])


def test_killed_run_leaves_no_process_and_loses_no_job(tmp_path: Path) -> None:
    """SIGKILL of `up` takes every process with it; the next run finishes what was accepted."""
    process = start_up(tmp_path, VITASCOPE_DENOISE__MIN_STEP_S="0.5")
    try:
        first = wait_ready(process, tmp_path)
        job = first.submit(steps=20)
        first.wait(job["id"], lambda state: (state.get("step") or 0) >= 2)
        children = list(first.children().values())
        assert len(children) >= 8
    finally:
        process.kill()
        process.communicate()
    psutil.wait_procs(children, timeout=20)
    assert all(is_gone(child) for child in children)
    with running_up(tmp_path) as second:
        assert "succeeded" == second.wait(job["id"])["status"]


def test_second_run_on_a_folder_is_refused(up: Up) -> None:
    """Two runs would share a ledger; the error names the holder and the way out."""
    ran = run_vitascope("up", "--data", str(up.data), "--port", "0")
    assert (6, True) == (ran.returncode, str(up.process.pid) in ran.stderr)


def test_port_in_use_is_said(up: Up, tmp_path: Path) -> None:
    """The error names the port and the way out."""
    port = up.url.rsplit(":", 1)[1]
    ran = run_vitascope("up", "--data", str(tmp_path), "--port", port)
    assert (6, True) == (ran.returncode, port in ran.stderr)
    assert "fix:" in ran.stderr


def test_everything_listens_on_loopback_only(up: Up) -> None:
    """No part of a local run can be reached from outside."""
    addresses = {
        (name, connection.laddr.ip)
        for name, child in up.children().items()
        for connection in child.connections(kind="inet")
        if connection.status == psutil.CONN_LISTEN
    }
    assert {"127.0.0.1"} == {ip for _, ip in addresses}
    assert {"ingress", "denoise", "decode", "encode", "nats", "s3"} <= {name for name, _ in addresses}


@pytest.mark.parametrize("role", ["ingress", "denoise", "publish"])
def test_process_without_servers_says_what_is_missing(role: str, tmp_path: Path) -> None:
    """Nothing at the address: a clear line and a status other than 0, no trace."""
    env = {
        **os.environ,
        "VITASCOPE_NATS__URL": "nats://127.0.0.1:9",
        "VITASCOPE_NATS__CONNECT_TIMEOUT_S": "1",
        "VITASCOPE_CACHE": str(tmp_path),
    }
    ran = run_vitascope(role, env=env)
    assert (1, True) == (ran.returncode, "127.0.0.1:9" in ran.stderr), ran.stderr
    assert "Traceback" not in ran.stderr
