"""Reading, listing and deleting videos."""

import asyncio
from datetime import timedelta

import httpx
import pytest

from doors import JOBS, ONE_REPLICA, World, read_error, submit
from unit.ingress.videos.conftest import VIDEOS
from vitascope.contracts import transitions
from vitascope.contracts.events import Progress
from vitascope.contracts.failures import Failure, FailureCode
from vitascope.contracts.flow import Stage

NOBODY = f"{VIDEOS}/vj_01KDVDNA00W52FRFC30J36F36P"


async def test_a_video_is_followed_to_its_end(world: World, client: httpx.AsyncClient) -> None:
    """What was planned becomes what came out, and the times are those of the clock."""
    job = (await submit(client))["id"]
    video = f"{VIDEOS}/{job}"
    assert "queued" == (await client.get(video)).json()["status"]
    world.time.advance(5)
    await world.finish(job)
    done = await client.get(video)
    view = done.json()
    assert "openai-poll-after-ms" not in done.headers
    assert ("completed", 100, f"{job}.mp4", 17, 8.0, None) == tuple(
        view[name] for name in ("status", "progress", "file_name", "num_frames", "fps", "error")
    )
    assert view["created_at"] + 5 == view["completed_at"]
    assert view["completed_at"] + timedelta(days=7).total_seconds() == view["expires_at"]
    assert {"denoise", "decode", "encode"} == set(view["stage_durations"])
    assert 5.0 == view["inference_time_s"]


async def test_a_video_in_progress_stays_so(world: World, client: httpx.AsyncClient) -> None:
    """Queued until a group takes it; nothing moves backwards when that group gives it up."""
    job = (await submit(client))["id"]
    record = (await world.start(job)).record
    started = await client.get(f"{VIDEOS}/{job}")
    assert "in_progress" == started.json()["status"]
    assert 500 <= int(started.headers["openai-poll-after-ms"]) <= 5000
    await world.change(job, transitions.requeue(record, 1, "its group was given to another job"))
    assert "in_progress" == (await client.get(f"{VIDEOS}/{job}")).json()["status"]


@ONE_REPLICA
async def test_progress_is_real(world: World, client: httpx.AsyncClient) -> None:
    """Steps of denoising are nearly all of it."""
    job = (await submit(client, steps=20))["id"]
    await world.start(job)
    app = client._transport.app  # type: ignore[attr-defined]
    seen = []
    for step in (0, 10, 20):
        progress = Progress(job=job, attempt=1, stage=Stage.DENOISE, step=step, steps=20, time=world.time.now())
        app.state.door.progress.apply(progress)
        seen.append((await client.get(f"{VIDEOS}/{job}")).json()["progress"])
    assert [0, 45, 90] == seen


@pytest.mark.parametrize("how", ["failed", "cancelled"])
async def test_a_failed_video_is_200_with_its_error(world: World, client: httpx.AsyncClient, how: str) -> None:
    """With a stable word as its code."""
    job = (await submit(client))["id"]
    if how == "failed":
        record = (await world.start(job)).record
        await world.change(job, transitions.fail(record, 1, Failure.of(FailureCode.DENOISE_FAILED), world.time.now()))
    else:
        await client.post(f"{JOBS}/{job}/cancel")
    view = (await client.get(f"{VIDEOS}/{job}")).json()
    assert ("failed", None) == (view["status"], view["file_name"])
    assert {"failed": "denoise_failed", "cancelled": "cancelled"}[how] == view["error"]["code"]
    assert view["completed_at"] is not None


async def test_a_video_that_is_none_is_404(world: World, client: httpx.AsyncClient) -> None:
    """So is one that has expired: record and file go together."""
    for address in (NOBODY, f"{VIDEOS}/video-123", f"{VIDEOS}/..%2f", f"{NOBODY}/content"):
        read_error(await client.get(address), 404, "not_found")
    job = (await submit(client))["id"]
    done = await world.finish(job)
    await world.change(job, transitions.expire(done.record, world.time.now()))
    read_error(await client.get(f"{VIDEOS}/{job}"), 404, "not_found")
    read_error(await client.get(f"{VIDEOS}/{job}/content"), 404, "not_found")
    read_error(await client.delete(f"{VIDEOS}/{job}"), 404, "not_found")
    assert [] == (await client.get(VIDEOS)).json()["data"]


@pytest.mark.parametrize("state", ["queued", "running", "completed", "failed"])
async def test_a_deleted_video_is_gone(world: World, client: httpx.AsyncClient, state: str) -> None:
    """A live one is cancelled by that; the second to ask hears 404, and so does everybody."""
    job = (await submit(client))["id"]
    if state in {"running", "failed"}:
        record = (await world.start(job)).record
    if state == "failed":
        await world.change(job, transitions.fail(record, 1, Failure.of(FailureCode.DENOISE_FAILED), world.time.now()))
    if state == "completed":
        await world.finish(job)
    deleted = await client.delete(f"{VIDEOS}/{job}")
    assert {"id": job, "object": "video.deleted", "deleted": True} == deleted.json()
    assert (await world.load(job)).record.is_terminal
    for method, address in (("DELETE", ""), ("GET", ""), ("GET", "/content")):
        read_error(await client.request(method, f"{VIDEOS}/{job}{address}"), 404, "not_found")
    read_error(await client.get(f"{JOBS}/{job}"), 404, "not_found")
    assert [] == (await client.get(VIDEOS)).json()["data"]


async def test_of_several_who_delete_one_is_told_so(client: httpx.AsyncClient) -> None:
    """The others hear 404."""
    job = (await submit(client))["id"]
    answers = await asyncio.gather(*(client.delete(f"{VIDEOS}/{job}") for _ in range(4)))
    assert [200, 404, 404, 404] == sorted(answer.status_code for answer in answers)


async def test_a_list_is_walked_in_either_order(world: World, client: httpx.AsyncClient) -> None:
    """Page by page, each with where it begins and ends."""
    jobs = []
    for _ in range(5):
        jobs.append((await submit(client))["id"])
        world.time.advance(1.2)
    for order, expected in (("asc", jobs), ("desc", jobs[::-1])):
        seen: list[str] = []
        after: dict[str, str] = {}
        while True:
            page = (await client.get(VIDEOS, params={"limit": 2, "order": order} | after)).json()
            ids = [view["id"] for view in page["data"]]
            assert (ids[0], ids[-1]) == (page["first_id"], page["last_id"])
            seen += ids
            after = {"after": page["last_id"]}
            if not page["has_more"]:
                break
        assert expected == seen
    whole = (await client.get(VIDEOS)).json()
    assert (jobs[::-1], False) == ([view["id"] for view in whole["data"]], whole["has_more"])


async def test_a_page_of_none_says_whether_there_is_more(client: httpx.AsyncClient) -> None:
    """Limit 0 is one."""
    empty = {"object": "list", "data": [], "first_id": None, "last_id": None, "has_more": False}
    assert empty == (await client.get(VIDEOS, params={"limit": 0})).json()
    await submit(client)
    assert empty | {"has_more": True} == (await client.get(VIDEOS, params={"limit": 0})).json()
    assert empty == (await client.get(VIDEOS, params={"after": "video_gen_0"})).json()


@pytest.mark.parametrize("query", ["limit=101", "limit=-1", "limit=ten", "order=up"])
async def test_a_wrong_parameter_is_400_by_name(client: httpx.AsyncClient, query: str) -> None:
    """In the one shape."""
    assert query.partition("=")[0] == read_error(await client.get(f"{VIDEOS}?{query}"), 400, "invalid_request")["param"]
