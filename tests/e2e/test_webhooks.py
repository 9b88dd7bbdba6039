"""Webhooks of a running pipeline: who asked hears how jobs end, once, and no receiver can hold a job up."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from standardwebhooks import Webhook

from contract.waiting import until_true
from pipeline import JOB_DEADLINE_S, Up, running_up
from receivers import Receiver, receiving

LOOPBACK = {
    "VITASCOPE_WEBHOOKS__ALLOW_NETWORKS": '["127.0.0.1/32"]',
    "VITASCOPE_DENOISE__MIN_STEP_S": "0.1",
}


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with running_up(tmp_path_factory.mktemp("webhooks") / "data", **LOOPBACK) as running:
        yield running


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as made:
        yield made


async def ask(call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """A blocking call beside the receiver."""
    return await asyncio.to_thread(call, *arguments, **options)


async def test_callback_is_posted_once_for_each_job(up: Up, receiver: Receiver) -> None:
    """When it has succeeded, and when it was cancelled; verified with the tenant's secret, and nothing after it."""
    url = f"{receiver.url}/job"
    done = await ask(up.submit, callback_url=url)
    stopped = await ask(up.submit, callback_url=url, steps=200)
    await ask(up.call, "POST", f"/v1/video-jobs/{stopped['id']}/cancel")
    await ask(up.wait, done["id"])
    await until_true(lambda: len(receiver.received) >= 2, JOB_DEADLINE_S)
    secret = (await ask(up.call, "GET", "/v1/webhooks/callback/secret"))["secret"]
    told = {}
    for message in receiver.received:
        body = Webhook(secret).verify(message.body, message.headers)
        told[body["data"]["id"]] = (body["type"], body["data"]["status"])
    assert {done["id"]: ("job.succeeded", "succeeded"), stopped["id"]: ("job.cancelled", "cancelled")} == told
    log = await ask(up.call, "GET", "/v1/webhooks/callback/deliveries")
    assert ["delivered"] * 2 == [row["status"] for row in log["data"]]
    assert 2 == len(receiver.received)


async def test_receiver_that_hangs_holds_no_job_up(up: Up, receiver: Receiver) -> None:
    """The job ends, can be cancelled, and is shown as ended while its receiver still says nothing."""
    row = await ask(up.call, "POST", "/v1/webhooks", json={"url": f"{receiver.url}/hang", "events": ["job.running"]})
    job = await ask(up.submit, steps=200)
    await until_true(lambda: bool(receiver.received), JOB_DEADLINE_S)
    began_s = time.monotonic()
    assert "cancelled" == (await ask(up.call, "POST", f"/v1/video-jobs/{job['id']}/cancel"))["status"]
    ended = await ask(up.wait, (await ask(up.submit))["id"])
    assert "succeeded" == ended["status"]
    assert time.monotonic() - began_s < JOB_DEADLINE_S
    await ask(up.call, "PATCH", f"/v1/webhooks/{row['id']}", json={"enabled": False})
    assert "job.running" == json.loads(receiver.received[0].body)["type"]


async def test_test_event_shows_what_comes_of_it(up: Up, receiver: Receiver) -> None:
    """The log has the status that the receiver answered."""
    row = await ask(up.call, "POST", "/v1/webhooks", json={"url": f"{receiver.url}/down"})
    path = f"/v1/webhooks/{row['id']}"
    sent = await ask(up.call, "POST", f"{path}/test")
    await until_true(lambda: bool(receiver.received), JOB_DEADLINE_S)
    body = Webhook(row["secret"]).verify(receiver.received[0].body, receiver.received[0].headers)
    assert ("webhook.test", sent["event_id"]) == (body["type"], receiver.received[0].id)
    shown: dict[str, Any] = {}
    async with asyncio.timeout(JOB_DEADLINE_S):
        while not shown.get("attempts"):
            shown = await ask(up.call, "GET", f"{path}/deliveries/{sent['id']}")
    assert (503, "pending") == (shown["attempts"][0]["status_code"], shown["status"])
