"""Screens in the whole pipeline: rules and a moderation service for prompts, the model and the service for pictures."""

import time
from collections.abc import Iterator

import httpx
import pytest

from moderation import ModerationService, serving_moderation
from pipeline import POLL_S, SMALL, Up, running_up

ASKED_DEADLINE_S = 120.0


@pytest.fixture(scope="module")
def service() -> Iterator[ModerationService]:
    with serving_moderation() as opened:
        yield opened


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory, service: ModerationService) -> Iterator[Up]:
    env = {
        "PROMPT_RULES": "builtin",
        "PROMPT_HOOK": "true",
        "STILL_MODEL": "true",
        "STILL_HOOK": "true",
        "STILLS": "3",
        "HOOK_URL": service.url,
        "HOOK_ALLOW_NETWORKS": '["127.0.0.0/8"]',
    }
    settings = {f"VITASCOPE_SCREEN__{name}": value for name, value in env.items()}
    with running_up(tmp_path_factory.mktemp("screened"), **settings) as opened:
        yield opened


@pytest.fixture(autouse=True)
def _harmless(service: ModerationService) -> None:
    service.flags_pictures, service.status = False, 200
    service.asked.clear()


def post(up: Up, prompt: str) -> httpx.Response:
    return httpx.post(f"{up.url}/v1/video-jobs", json={**SMALL, "prompt": prompt}, timeout=30)


def test_harmless_job_passes_all_screens(up: Up, service: ModerationService) -> None:
    """The model has no doubt about a red circle; the service was asked about the prompt and three pictures."""
    job = up.wait(up.submit()["id"])
    assert "succeeded" == job["status"]
    assert 3 == service.pictures
    assert SMALL["prompt"] in [item for body in service.asked for item in body["input"]]
    assert up.content(job["id"])
    assert job["price_units"] == up.stored_record(job["id"])["result"]["billed_units"] > 0


@pytest.mark.parametrize("prompt", ["p0rn", "an unmentionable"], ids=["rules", "service"])
def test_refused_prompt_makes_no_job(up: Up, prompt: str) -> None:
    """400 with its code; the list of jobs is as before, and no log has the prompt."""
    before = up.call("GET", "/v1/video-jobs")["data"]
    answer = post(up, prompt)
    assert (400, "prompt_refused") == (answer.status_code, answer.json()["error"]["code"])
    assert [job["id"] for job in before] == [job["id"] for job in up.call("GET", "/v1/video-jobs")["data"]]
    logs = "".join(path.read_text(encoding="utf-8") for path in (up.data / "logs").iterdir())
    assert "prompt refused" in logs
    assert prompt not in logs


def test_flagged_clip_is_withheld(up: Up, service: ModerationService) -> None:
    """It says why, has no file anywhere, is not billed, and cannot be tried again."""
    service.flags_pictures = True
    job = up.wait(up.submit()["id"])
    assert ("withheld", "output_withheld") == (job["status"], job["error"]["code"])
    assert "violence" in job["error"]["message"]
    assert job["result"] is None
    path = f"{up.url}/v1/video-jobs/{job['id']}"
    assert 409 == httpx.get(f"{path}/content", timeout=30).status_code
    assert 409 == httpx.post(f"{path}/retry", timeout=30).status_code
    record = up.stored_record(job["id"])
    assert "withheld" == record["run"]["state"]
    assert 0.0 == record["result"]["billed_units"]
    assert record["result"]["actual_gpu_s"] > 0
    assert up.object_classes(job["id"]) <= {"records"}


def test_clip_waits_for_a_service_that_is_away(up: Up, service: ModerationService) -> None:
    """Nothing is uploaded until it answers again; then the job succeeds as if nothing had been."""
    job = up.submit()["id"]
    service.status = 503
    deadline = time.monotonic() + ASKED_DEADLINE_S
    while service.pictures == 0:
        assert time.monotonic() < deadline, "the pictures were not asked about"
        time.sleep(POLL_S)
    assert "outputs" not in up.object_classes(job)
    assert up.get(job)["status"] in {"decoding", "encoding"}
    service.status = 200
    assert "succeeded" == up.wait(job)["status"]
