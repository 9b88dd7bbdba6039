"""`DELETE /v1/video-jobs/{job}`: gone for its owner at once, whatever its state, and however often it is asked for."""

import asyncio

import httpx
import pytest
from fastapi import FastAPI

from doors import JOBS, World, get_door, open_door, read_error, submit, until
from vitascope.contracts import transitions
from vitascope.contracts.flow import State

DELETED = {"object": "video.job.deleted", "deleted": True}


async def _assert_gone(client: httpx.AsyncClient, job: str) -> None:
    for method, path in (("GET", ""), ("GET", "/content"), ("GET", "/events"), ("GET", "/params"), ("POST", "/cancel")):
        read_error(await client.request(method, f"{JOBS}/{job}{path}"), 404, "not_found")
    assert [] == (await client.get(JOBS)).json()["data"]


async def test_a_queued_job_is_cancelled(world: World, client: httpx.AsyncClient) -> None:
    """It never runs, and nobody sees it any more; the ledger knows it as cancelled and deleted."""
    job = (await submit(client))["id"]
    response = await client.delete(f"{JOBS}/{job}")
    assert (200, {"id": job, **DELETED}) == (response.status_code, response.json())
    record = (await world.load(job)).record
    assert (State.CANCELLED, world.time.now()) == (record.state, record.times.deleted)
    await _assert_gone(client, job)


async def test_a_running_job_is_cancelled_and_its_group_told(world: World, client: httpx.AsyncClient) -> None:
    """The control message is the shortcut."""
    job = (await submit(client))["id"]
    await world.start(job)
    async with world.broker.bus.watch_control("g0") as told:
        assert 200 == (await client.delete(f"{JOBS}/{job}")).status_code
        async with asyncio.timeout(5):
            assert job == (await anext(told)).job
    assert State.CANCELLED is (await world.load(job)).record.state
    await _assert_gone(client, job)


async def test_a_finished_job_expires(world: World, client: httpx.AsyncClient) -> None:
    """So its files go, and its URLs are no longer made."""
    job = (await submit(client))["id"]
    await world.finish(job)
    assert 200 == (await client.delete(f"{JOBS}/{job}")).status_code
    record = (await world.load(job)).record
    assert (State.EXPIRED, "deleted by the client") == (record.state, record.run.reason)
    await _assert_gone(client, job)


async def test_an_expired_job_is_forgotten(world: World, client: httpx.AsyncClient) -> None:
    """Record and copy go at once: nothing else is left of it."""
    job = (await submit(client))["id"]
    ended = (await world.finish(job)).record
    await world.change(job, transitions.expire(ended, world.time.now()))
    assert 200 == (await client.delete(f"{JOBS}/{job}")).status_code
    assert await world.broker.ledger.get(job) is None
    assert not [key for key in world.store.objects if key.startswith("records/")]
    read_error(await client.delete(f"{JOBS}/{job}"), 404, "not_found")


async def test_deleting_twice_is_the_same_as_once(world: World, client: httpx.AsyncClient) -> None:
    """Side by side, and later."""
    job = (await submit(client))["id"]
    await world.start(job)
    answers = await asyncio.gather(*(client.delete(f"{JOBS}/{job}") for _ in range(4)))
    answers.append(await client.delete(f"{JOBS}/{job}"))
    assert [(200, job)] * 5 == [(answer.status_code, answer.json()["id"]) for answer in answers]
    assert 3 == (await world.load(job)).revision


@pytest.mark.parametrize("job", ["vj_01KDVDNA00W52FRFC30J36F36P", "x"], ids=["none of that name", "no id"])
async def test_what_is_not_there_cannot_be_deleted(client: httpx.AsyncClient, job: str) -> None:
    """404, as for whatever is somebody else's."""
    read_error(await client.delete(f"{JOBS}/{job}"), 404, "not_found")


async def test_a_stream_of_a_job_that_is_deleted_ends_with_it(app: FastAPI) -> None:
    """Its last event is the end."""
    async with open_door(app) as client:
        job = (await submit(client))["id"]
        following = asyncio.create_task(client.get(f"{JOBS}/{job}/events"))
        await until(lambda: get_door(app).streams.count == 1)
        await client.delete(f"{JOBS}/{job}")
        text = (await asyncio.wait_for(following, 5)).text
    assert ["queued", "cancelled"] == [part.split('"')[0] for part in text.split('"status": "')[1:]]
