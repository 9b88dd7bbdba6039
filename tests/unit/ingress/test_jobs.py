"""One job: what a GET tells at each point of its life, and cancel."""

import asyncio
from datetime import timedelta
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from doors import JOBS, ONE_REPLICA, World, get_door, open_door, read_error, submit, until
from records import ENGINE, queued_record
from vitascope.contracts import transitions
from vitascope.contracts.events import Control, Progress
from vitascope.contracts.failures import Failure, FailureCode
from vitascope.contracts.flow import Stage, State
from vitascope.contracts.jobs import ObjectRef
from vitascope.contracts.pools import GroupState
from vitascope.contracts.subjects import progress_subject

UNKNOWN = "vj_01KDVDNA00W52FRFC30J36F36P"
PATHS = ["", "/cancel", "/retry", "/preempt", "/content", "/events"]
DEEDS = {"/cancel", "/retry", "/preempt"}


async def _get(client: httpx.AsyncClient, job: str) -> dict[str, Any]:
    response = await client.get(f"{JOBS}/{job}")
    assert response.status_code == 200, response.text
    view: dict[str, Any] = response.json()
    return view


def _progress(world: World, job: str, **changes: Any) -> Progress:
    shown: dict[str, Any] = {
        "attempt": 1,
        "stage": "denoise",
        "step": 3,
        "steps": 24,
        "step_s": 0.5,
        "remaining_s": 10.5,
    }
    return Progress(job=job, time=world.time.now(), **shown | changes)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "job",
    [
        pytest.param(UNKNOWN, id="unknown"),
        pytest.param("vj_1", id="no-id"),
        pytest.param(UNKNOWN + "%0A", id="line-feed"),
        pytest.param("*", id="wildcard"),
        pytest.param("%00", id="nul"),
        pytest.param("x" * 5000, id="long"),
    ],
)
async def test_an_unknown_job_is_404(client: httpx.AsyncClient, job: str, path: str) -> None:
    """Whatever the id looks like, and whatever is asked of it."""
    method = "POST" if path in DEEDS else "GET"
    read_error(await client.request(method, f"{JOBS}/{job}{path}"), 404, "not_found")


@pytest.mark.parametrize("path", PATHS)
async def test_somebody_elses_job_is_404_and_stays_as_it_is(world: World, client: httpx.AsyncClient, path: str) -> None:
    """Not 403: a stranger does not learn that it exists."""
    job = (await world.broker.ledger.create(queued_record(tenant="other"))).record.id
    method = "POST" if path in DEEDS else "GET"
    read_error(await client.request(method, f"{JOBS}/{job}{path}"), 404, "not_found")
    assert State.QUEUED is (await world.load(job)).record.state
    assert [] == (await client.get(JOBS)).json()["data"]


@ONE_REPLICA
async def test_a_waiting_job_says_where_it_stands_and_why(world: World, client: httpx.AsyncClient) -> None:
    """Position, expected start and reason change with the queue and the groups."""
    first, second = (await submit(client))["id"], (await submit(client, steps=100))["id"]
    third = (await submit(client))["id"]
    view = await _get(client, third)
    assert (3, None) == (view["queue_position"], view["estimated_start"])
    assert "No GPU group of the pool default is up; the job starts when one is." == view["reason"]
    await world.keep_rows("default", state=GroupState.BUSY)
    await until(lambda: get_door_groups(client))
    view = await _get(client, third)
    assert "2 jobs are ahead in the queue." == view["reason"]
    ahead_s = sum([(await _get(client, job))["estimated_gpu_seconds"] for job in (first, second)])
    assert _stamp(world, ahead_s) == view["estimated_start"]
    assert "1 job is ahead in the queue." == (await _get(client, second))["reason"]
    view = await _get(client, first)
    assert (1, "The job is next and starts as soon as a GPU group is free.") == (view["queue_position"], view["reason"])


async def test_progress_is_the_present_attempts_and_stages(
    world: World, app: FastAPI, client: httpx.AsyncClient
) -> None:
    """It arrives over the bus; what an old attempt or another stage says is not shown."""
    job = (await submit(client))["id"]
    view = await _get(client, job)
    assert (None, 0, 24) == (view["stage"], view["step"], view["steps"])
    await world.start(job)
    view = await _get(client, job)
    assert ("running", "denoise", 0, None) == (view["status"], view["stage"], view["step"], view["remaining_s"])
    await world.broker.bus.publish_progress(progress_subject("default", job), _progress(world, job))
    await until(lambda: get_door(app).progress.find(job, 1, Stage.DENOISE))
    view = await _get(client, job)
    assert (3, 24, 0.5, 10.5) == (view["step"], view["steps"], view["step_s"], view["remaining_s"])
    get_door(app).progress.apply(_progress(world, job, attempt=0, step=20))
    get_door(app).progress.apply(_progress(world, job, stage="encode", step=9))
    assert 3 == (await _get(client, job))["step"]


async def test_a_preempted_job_keeps_the_reason_it_came_back_with(world: World, client: httpx.AsyncClient) -> None:
    """And the new wait is explained beside it."""
    job = (await submit(client))["id"]
    running = await world.start(job)
    await world.change(job, transitions.requeue(running.record, 1, "Its GPU group was lost."))
    await asyncio.sleep(0)
    view = await _get(client, job)
    assert "queued" == view["status"]
    assert view["reason"].startswith("Its GPU group was lost. No GPU group")


async def test_a_finished_job_has_its_file_and_all_that_made_it(world: World, client: httpx.AsyncClient) -> None:
    """Signed URLs, digest, figures, engine and times."""
    job = (await submit(client, fps="24000/1001"))["id"]
    await world.finish(job, video=b"film")
    view = await _get(client, job)
    result = view["result"]
    assert ("succeeded", None, None) == (view["status"], view["error"], view["queue_position"])
    assert result["video_url"].startswith(f"http://objects.invalid/outputs/default/{job}/1/video.mp4?")
    assert result["thumbnail_url"].startswith(f"http://objects.invalid/outputs/default/{job}/1/thumbnail.jpg?")
    assert _stamp(world, 3600) == result["urls_expire_at"]
    assert (4, 64, 64, 17, "24000/1001") == tuple(
        result[name] for name in ("bytes", "width", "height", "num_frames", "fps")
    )
    assert ENGINE.model_dump(mode="json") == result["engine"]
    assert {"denoise": 1.0, "decode": 1.0, "encode": 1.0} == result["stage_seconds"]
    stamps = ("created", "started", "first_step", "denoised", "decoded", "encoded", "finished")
    assert {_stamp(world, 0)} == {view[f"{name}_at"] for name in stamps}


async def test_a_failed_job_is_200_with_its_error(world: World, client: httpx.AsyncClient) -> None:
    """The request for it went well; the job did not."""
    job = (await submit(client))["id"]
    running = await world.start(job)
    failure = Failure.of(FailureCode.DENOISE_OUT_OF_MEMORY, stage="denoise")
    await world.change(job, transitions.fail(running.record, 1, failure, world.time.now()))
    view = await _get(client, job)
    assert "failed" == view["status"]
    assert {"code": "denoise_out_of_memory", "message": failure.message, "stage": "denoise"} == view["error"]
    assert failure.message == view["reason"]


@pytest.mark.parametrize("state", [State.QUEUED, State.RUNNING, State.DECODING, State.ENCODING])
async def test_a_live_job_is_cancelled_at_once_and_once(world: World, client: httpx.AsyncClient, state: State) -> None:
    """Whatever stage is at it; a second cancel is the same, and changes nothing."""
    job = (await submit(client))["id"]
    await _bring_to(world, job, state)
    first = await client.post(f"{JOBS}/{job}/cancel")
    revision = (await world.load(job)).revision
    second = await client.post(f"{JOBS}/{job}/cancel", content=b"whatever")
    assert (200, 200) == (first.status_code, second.status_code)
    assert "cancelled" == first.json()["status"] == second.json()["status"]
    assert "cancelled by the client" == first.json()["reason"]
    assert revision == (await world.load(job)).revision
    assert [job] == [item["id"] for item in (await client.get(JOBS, params={"status": "cancelled"})).json()["data"]]


async def test_the_group_at_work_is_told(world: World, client: httpx.AsyncClient) -> None:
    """The shortcut; for a job that no group works on there is nobody to tell."""
    job = (await submit(client))["id"]
    await world.start(job, "g7")
    async with world.broker.bus.watch_control("g7") as news:
        await client.post(f"{JOBS}/{job}/cancel")
        assert Control(job=job, attempt=1) == await anext(news)


@pytest.mark.parametrize("state", [State.SUCCEEDED, State.FAILED, State.EXPIRED])
async def test_an_ended_job_cannot_be_cancelled(world: World, client: httpx.AsyncClient, state: State) -> None:
    """409, and it stays what it is."""
    job = (await submit(client))["id"]
    await _bring_to(world, job, state)
    before = await world.load(job)
    error = read_error(await client.post(f"{JOBS}/{job}/cancel"), 409, "not_cancellable")
    assert str(state) in error["message"]
    assert before == await world.load(job)


async def test_cancel_without_a_ledger_is_503_and_the_job_lives(world: World, client: httpx.AsyncClient) -> None:
    """The client knows that it has to ask again."""
    job = (await submit(client))["id"]
    world.broker.set_connected(connected=False)
    read_error(await client.post(f"{JOBS}/{job}/cancel"), 503, "service_unavailable")
    read_error(await client.get(f"{JOBS}/{job}"), 503, "service_unavailable")
    world.broker.set_connected(connected=True)
    assert "queued" == (await _get(client, job))["status"]


async def test_any_replica_answers_for_any_job(world: World) -> None:
    """Made at one, read and cancelled at another, seen at the first (W22)."""
    async with open_door(world.make_app()) as one, open_door(world.make_app()) as other:
        job = (await submit(one))["id"]
        assert "queued" == (await _get(other, job))["status"]
        await other.post(f"{JOBS}/{job}/cancel")
        assert "cancelled" == (await _get(one, job))["status"]


async def _bring_to(world: World, job: str, state: State) -> None:
    now = world.time.now()
    if state in {State.SUCCEEDED, State.EXPIRED}:
        done = await world.finish(job)
        if state is State.EXPIRED:
            await world.change(job, transitions.expire(done.record, now))
        return
    if state is State.QUEUED:
        return
    record = (await world.start(job)).record
    if state is State.FAILED:
        await world.change(job, transitions.fail(record, 1, Failure.of(FailureCode.DENOISE_FAILED), now))
        return
    if state is State.RUNNING:
        return
    latents = ObjectRef(key="latents/x", bytes=1, sha256="a" * 64)
    record = transitions.finish_denoise(record, 1, latents=latents, engine=ENGINE, gpu_s=1.0, stage_s=1.0, now=now)
    await world.change(job, record)
    if state is State.ENCODING:
        await world.change(job, transitions.finish_decode(record, 1, chunks=5, stage_s=1.0, now=now))


def _stamp(world: World, after_s: float) -> str:
    return (world.time.now() + timedelta(seconds=after_s)).isoformat().replace("+00:00", "Z")


def get_door_groups(client: httpx.AsyncClient) -> object:
    """The groups that the client's replica knows."""
    transport = client._transport
    assert isinstance(transport, httpx.ASGITransport)
    app = transport.app
    assert isinstance(app, FastAPI)
    return get_door(app).groups.list_alive()
