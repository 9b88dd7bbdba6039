"""`POST /v1/videos/sync`: the request waits for the file, and the job ends with the request, however that ends."""

import asyncio
import json
from typing import Any

import httpx
import pytest

from doors import JOBS, ONE_REPLICA, World, open_door, read_error, until
from unit.ingress.videos.conftest import VIDEOS
from vitascope.contracts import transitions
from vitascope.contracts.failures import Failure, FailureCode
from vitascope.contracts.flow import State

SYNC = f"{VIDEOS}/sync"
PROMPT = {"prompt": "a red circle"}


async def find_job(client: httpx.AsyncClient) -> str:
    """The one job, once it is there."""
    jobs = client._transport.app.state.door.jobs  # type: ignore[attr-defined]
    await until(lambda: jobs._jobs)
    return str(next(iter(jobs._jobs)))


async def test_the_answer_is_the_file(world: World, client: httpx.AsyncClient) -> None:
    """With what it is in headers; afterwards nothing is listed."""
    asked = asyncio.create_task(client.post(SYNC, data=PROMPT | {"seconds": "2"}))
    job = await find_job(client)
    assert [job] == [view["id"] for view in (await client.get(VIDEOS)).json()["data"]]
    await world.finish(job, b"the film")
    response = await asked
    assert (200, b"the film", "video/mp4") == (
        response.status_code,
        response.content,
        response.headers["content-type"],
    )
    headers = response.headers
    assert ("8", "tiny-wan", job) == (headers["content-length"], headers["x-model"], headers["x-video-id"])
    assert headers["x-request-id"].startswith("video_sync-")
    assert "0.000" == headers["x-inference-time-s"]
    assert {"denoise", "decode", "encode"} == set(json.loads(headers["x-stage-durations"]))
    assert "0.000" == headers["x-peak-memory-mb"]
    assert [] == (await client.get(VIDEOS)).json()["data"]
    assert State.EXPIRED is (await world.load(job)).record.state


async def test_who_hangs_up_frees_the_group(world: World, client: httpx.AsyncClient) -> None:
    """The job is cancelled at once, and gone."""
    app = client._transport.app  # type: ignore[attr-defined]
    gone = asyncio.Event()
    body, sent = json.dumps(PROMPT).encode(), list[dict[str, Any]]()
    incoming = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if incoming:
            return incoming.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": SYNC,
        "raw_path": SYNC.encode(),
        "query_string": b"",
        "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
    }
    asked = asyncio.create_task(app(scope, receive, send))
    job = await find_job(client)
    await world.start(job)
    gone.set()
    await asked
    record = (await world.load(job)).record
    assert State.CANCELLED is record.state
    assert record.times.deleted is not None
    assert 499 == sent[0]["status"]
    assert 0 == app.state.door.syncs.taken


async def test_past_the_time_limit_it_is_504_and_cancelled(world: World) -> None:
    """And no client is to try it again by itself."""
    async with open_door(world.make_app(sync_timeout_s=0.05)) as client:
        asked = asyncio.create_task(client.post(SYNC, data=PROMPT))
        job = await find_job(client)
        response = await asked
        read_error(response, 504, "sync_timed_out")
        assert "false" == response.headers["x-should-retry"]
        assert State.CANCELLED is (await world.load(job)).record.state


@pytest.mark.parametrize(
    ("code", "status"),
    [
        pytest.param(FailureCode.DENOISE_FAILED, 500, id="failed"),
        pytest.param(FailureCode.INVALID_REQUEST, 400, id="refused by a stage"),
    ],
)
async def test_a_failure_is_an_error(world: World, client: httpx.AsyncClient, code: FailureCode, status: int) -> None:
    """With the word for it, and nothing is kept."""
    asked = asyncio.create_task(client.post(SYNC, data=PROMPT))
    job = await find_job(client)
    record = (await world.start(job)).record
    await world.change(job, transitions.fail(record, 1, Failure.of(code), world.time.now()))
    response = await asked
    assert "Video generation failed:" in read_error(response, status, code)["message"]
    assert "false" == response.headers["x-should-retry"]
    assert [] == (await client.get(VIDEOS)).json()["data"]


async def test_who_cancels_the_job_ends_the_wait(client: httpx.AsyncClient) -> None:
    """409: it is nobody's failure. One that is deleted is 404."""
    for method, address, status, code in (("POST", "/cancel", 409, "not_ready"), ("DELETE", "", 404, "not_found")):
        asked = asyncio.create_task(client.post(SYNC, data=PROMPT))
        jobs = client._transport.app.state.door.jobs  # type: ignore[attr-defined]
        await until(lambda jobs=jobs: jobs.count(State.QUEUED))  # type: ignore[misc]  # bound at once
        (job,) = [view["id"] for view in (await client.get(VIDEOS)).json()["data"]]
        await client.request(method, f"{JOBS}/{job}{address}")
        read_error(await asked, status, code)


async def test_a_key_keeps_the_file_for_the_same_request(world: World, client: httpx.AsyncClient) -> None:
    """Who lost the answer asks again, and nothing is made twice."""
    headers = {"Idempotency-Key": "k1"}
    asked = asyncio.create_task(client.post(SYNC, data=PROMPT, headers=headers))
    await world.finish(await find_job(client), b"the film")
    first, again = await asked, await client.post(SYNC, data=PROMPT, headers=headers)
    assert (b"the film", b"the film") == (first.content, again.content)
    assert 1 == await world.count_jobs()


async def test_only_so_many_wait_at_a_time(world: World) -> None:
    """One more is to come again."""
    async with open_door(world.make_app(max_syncs=1)) as client:
        asked = asyncio.create_task(client.post(SYNC, data=PROMPT))
        job = await find_job(client)
        read_error(await client.post(SYNC, data=PROMPT), 503, "service_unavailable")
        await world.finish(job)
        assert 200 == (await asked).status_code


async def test_a_wrong_field_is_400_at_once(client: httpx.AsyncClient) -> None:
    """As at the other route."""
    read_error(await client.post(SYNC, data={"prompt": ""}), 400, "invalid_request")


@ONE_REPLICA
async def test_a_door_that_closes_ends_the_wait(world: World, client: httpx.AsyncClient) -> None:
    """503, and the job is gone: nobody would fetch it."""
    asked = asyncio.create_task(client.post(SYNC, data=PROMPT))
    job = await find_job(client)
    client._transport.app.state.door.streams.close()  # type: ignore[attr-defined]
    read_error(await asked, 503, "service_unavailable")
    assert State.CANCELLED is (await world.load(job)).record.state
