"""SIGKILL of every process while a job is in its hands: the job completes, with the same file as without the fault."""

from typing import Any

import psutil
import pytest

from pipeline import Up

JOB = {"size": "64x64", "frames": 17, "steps": 12, "seed": 11}
LONG_DECODE = {"size": "128x128", "frames": 33, "steps": 2, "seed": 12}


def digest(up: Up, **job: Any) -> str:
    done = up.wait(up.submit(**job)["id"])
    assert done["status"] == "succeeded", done
    return str(done["result"]["sha256"])


@pytest.fixture(scope="module")
def undisturbed(slow_up: Up) -> dict[str, str]:
    """What the jobs give when nothing happens."""
    return {"job": digest(slow_up, **JOB), "long decode": digest(slow_up, **LONG_DECODE)}


def kill(up: Up, name: str) -> psutil.Process:
    """End a process of the pipeline at once, and wait until it has gone."""
    child = up.children()[name]
    child.kill()
    child.wait(timeout=10)
    return child


@pytest.mark.parametrize("name", ["denoise", "scheduler", "ingress", "publish", "nats", "s3"])
def test_killed_while_denoising(slow_up: Up, undisturbed: dict[str, str], name: str) -> None:
    """In the middle of the loop."""
    job = slow_up.submit(**JOB)["id"]
    slow_up.wait(job, lambda state: (state.get("step") or 0) >= 5)
    killed = kill(slow_up, name)
    done = slow_up.wait(job)
    assert ("succeeded", undisturbed["job"]) == (done["status"], done["result"]["sha256"]), done
    assert killed.pid != slow_up.children()[name].pid


@pytest.mark.parametrize("name", ["decode", "encode"])
def test_killed_while_decoding(slow_up: Up, undisturbed: dict[str, str], name: str) -> None:
    """Decode streams and encode follows it; denoise is not repeated for either."""
    job = slow_up.submit(**LONG_DECODE)["id"]
    slow_up.wait(job, lambda state: state["status"] == "decoding")
    kill(slow_up, name)
    done = slow_up.wait(job)
    assert ("succeeded", undisturbed["long decode"]) == (done["status"], done["result"]["sha256"]), done
    assert 1 == done["attempt"]


def test_killed_denoise_goes_on_from_its_checkpoint(slow_up: Up) -> None:
    """The steps before the newest checkpoint are not bought twice."""
    job = slow_up.submit(**JOB)["id"]
    slow_up.wait(job, lambda state: (state.get("step") or 0) >= 7)
    kill(slow_up, "denoise")
    resumed = slow_up.wait(job, lambda state: state["attempt"] == 2 and state["status"] == "running")
    assert resumed["step"] >= 6
    assert "succeeded" == slow_up.wait(job)["status"]


def test_cancelled_job_leaves_nothing_and_frees_its_group(slow_up: Up) -> None:
    """Cancelled in the middle of the loop: twice is once, no objects but the record, and the next job runs."""
    job = slow_up.submit(**JOB)["id"]
    slow_up.wait(job, lambda state: (state.get("step") or 0) >= 4)
    assert ["cancelled", "cancelled"] == [slow_up.cancel(job)["status"] for _ in range(2)]
    assert "succeeded" == slow_up.wait(slow_up.submit(steps=2)["id"])["status"]
    assert {"records"} == slow_up.object_classes(job)
