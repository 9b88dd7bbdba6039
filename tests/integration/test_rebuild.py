"""NATS comes back without its files while everything runs: every accepted job is there again, and finishes."""

import asyncio
import json
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from pipeline import JOB_DEADLINE_S, POLL_S, SMALL, Up, running_up
from vitascope.adapters.jetstream import Connection
from vitascope.adapters.jetstream.api import call
from vitascope.contracts.subjects import STREAM_EVENTS
from vitascope.contracts.transitions import LEDGER_LOST_ATTEMPTS

STEPS = 24
SLOW = {"VITASCOPE_DENOISE__MIN_STEP_S": "0.25", "VITASCOPE_DENOISE__CHECKPOINT_EVERY": "3"}
KEY = "the-running-one"


class Wiped(NamedTuple):
    """Ids of jobs by where each was, and the step of the running one when it was seen running again."""

    jobs: dict[str, str]
    resumed_step: int


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """A pipeline in which a step takes at least a quarter of a second and a checkpoint is made every third step."""
    with running_up(tmp_path_factory.mktemp("rebuild") / "data", **SLOW) as running:
        yield running


@pytest.fixture(scope="module")
def wiped(up: Up) -> "Wiped":
    """NATS is killed in the middle of it, and its files are taken away."""
    jobs = {"finished": up.submit()["id"]}
    up.wait(jobs["finished"])
    decode = up.children()["decode"]
    decode.send_signal(signal.SIGSTOP)  # so that a job stays between its stages
    try:
        jobs["decoding"] = up.submit()["id"]
        up.wait(jobs["decoding"], lambda state: state["status"] == "decoding")
        jobs["running"] = _submit_keyed(up).json()["id"]
        jobs["queued"], jobs["queued too"] = up.submit()["id"], up.submit()["id"]
        wait_copy(up, jobs["running"], lambda record: record["run"].get("checkpoint", {}).get("step", 0) >= 6)
        wait_copy(up, jobs["decoding"], lambda record: record["run"]["state"] == "decoding")
        wipe_nats(up)
    finally:
        decode.send_signal(signal.SIGCONT)
    resumed = up.wait(
        jobs["running"], lambda state: state["attempt"] > LEDGER_LOST_ATTEMPTS and state["status"] == "running"
    )
    return Wiped(jobs, resumed["step"])


def wipe_nats(up: Up) -> None:
    """Take the files away under the server and kill it; whoever looks after it starts it again."""
    nats = up.children()["nats"]
    (up.data / "nats").rename(up.data / "nats-lost")
    nats.kill()
    nats.wait(10)
    shutil.rmtree(up.data / "nats", ignore_errors=True)


def wait_copy(up: Up, job: str, is_so: Callable[[dict[str, dict[str, dict[str, int]]]], bool]) -> None:
    """Wait until the copy of a record in the object store is as wanted."""
    deadline = time.monotonic() + JOB_DEADLINE_S
    while time.monotonic() < deadline:
        with up.store().get_object("vitascope", f"records/default/{job}/record.json") as answer:
            if is_so(json.loads(answer.read())):
                return
        time.sleep(POLL_S)
    raise AssertionError(f"the copy of {job} does not become as wanted")


def _submit_keyed(up: Up) -> httpx.Response:
    body = {**SMALL, "steps": STEPS}
    return httpx.post(f"{up.url}/v1/video-jobs", json=body, headers={"Idempotency-Key": KEY}, timeout=30)


def test_every_job_is_there_again_and_ends_well(up: Up, wiped: Wiped) -> None:
    """What had ended as it was, all else with an attempt that no process of before holds, one output each."""
    ends = {name: up.wait(job) for name, job in wiped.jobs.items()}
    assert {"succeeded"} == {end["status"] for end in ends.values()}
    assert 1 == ends["finished"]["attempt"]
    assert all(end["attempt"] > LEDGER_LOST_ATTEMPTS for name, end in ends.items() if name != "finished")
    for name, job in wiped.jobs.items():
        keys = [str(item.object_name) for item in up.store().list_objects("vitascope", "outputs/", recursive=True)]
        videos = [key for key in keys if job in key and key.endswith("video.mp4")]
        assert [f"outputs/default/{job}/{ends[name]['attempt']}/video.mp4"] == videos
        assert len(up.content(job)) == ends[name]["result"]["bytes"]


def test_the_running_job_went_on_from_its_checkpoint(up: Up, wiped: Wiped) -> None:
    """Never again from its first step."""
    assert wiped.resumed_step >= 6
    log = "\n".join(path.read_text() for path in sorted((up.data / "logs").glob("denoise*")))
    assert "checkpoint dropped" not in log


def test_the_decoded_job_was_not_denoised_again(up: Up, wiped: Wiped) -> None:
    """Its latents were kept: the only attempt at denoise is the one from before."""
    state = up.wait(wiped.jobs["decoding"])
    assert 1 + LEDGER_LOST_ATTEMPTS == state["attempt"]


def test_the_same_key_is_the_same_job(up: Up, wiped: Wiped) -> None:
    """A repetition long after the loss, though what was remembered went with it."""
    up.wait(wiped.jobs["running"])
    again = _submit_keyed(up)
    assert ("true", wiped.jobs["running"]) == (again.headers["idempotency-replayed"], again.json()["id"])


async def test_every_end_is_announced_once_on_the_new_stream(up: Up, wiped: Wiped) -> None:
    """Also that of the job which had ended before."""
    for job in wiped.jobs.values():
        await asyncio.to_thread(up.wait, job)
    wanted = {f"vitascope.events.default.{job}.job.succeeded.v1": 1 for job in wiped.jobs.values()}
    async with asyncio.timeout(30), _connect(up.data) as connection:
        while True:
            question = {"subjects_filter": "vitascope.events.>"}
            answer = await call(connection, f"STREAM.INFO.{STREAM_EVENTS}", question)
            found = {subject: n for subject, n in answer["state"]["subjects"].items() if "succeeded" in subject}
            if found == wanted:
                return
            assert all(number == 1 for number in found.values())
            await asyncio.sleep(POLL_S)


def test_recover_finds_nothing_more_to_do(up: Up, wiped: Wiped) -> None:
    """By hand, on a ledger that is complete; a copy that cannot be read is told by its key and its exit status."""
    for job in wiped.jobs.values():
        up.wait(job)
    done = up.run_command("recover", "--json", VITASCOPE_DATA=str(up.data))
    assert 0 == done.returncode, done.stderr
    report = json.loads(done.stdout)
    assert (0, 0, 0) == (report["rebuilt_live"], report["rebuilt_ended"], report["broken"])
    assert report["copies"] == report["present"] >= len(wiped.jobs)
    key = f"records/default/{wiped.jobs['queued']}/old.json"
    up.store().put_object("vitascope", key, BytesIO(b"{"), 1)
    done = up.run_command("recover", "--json", VITASCOPE_DATA=str(up.data))
    up.store().remove_object("vitascope", key)
    assert 1 == done.returncode
    assert [key] == json.loads(done.stdout.splitlines()[0])["broken_keys"]


def _connect(data: Path) -> Connection:
    ports = json.loads((data / "run" / "ports.json").read_text())
    secrets = json.loads((data / "run" / "credentials.json").read_text())
    url = f"nats://127.0.0.1:{ports['nats']}"
    return Connection(url, user=secrets["nats_user"], password=secrets["nats_password"])
