"""`/v1/videos/{id}/content`: the file, its variants, and why there is none."""

import httpx
import pytest

from doors import World, open_door, read_error, submit
from unit.ingress.videos.conftest import VIDEOS
from vitascope.contracts import transitions
from vitascope.contracts.failures import Failure, FailureCode
from vitascope.contracts.jobs import Result

FILM = bytes(range(256)) * 8


async def finish(world: World, job: str) -> str:
    """The video's content, once it has all its files."""
    await world.start(job)
    record = (await world.load(job)).record
    refs = {
        name: await world.store.put(f"outputs/default/{job}/1/{name}", content, kind)
        for name, content, kind in (
            ("output", FILM, "video/mp4"),
            ("thumbnail", b"still", "image/jpeg"),
            ("spritesheet", b"sheet", "image/jpeg"),
        )
    }
    from doors import _denoise  # noqa: PLC0415 (the world's own step)

    now = world.time.now()
    denoised = _denoise(record, refs["output"], world.time)
    decoded = transitions.finish_decode(denoised, 1, chunks=1, stage_s=1.0, now=now)
    done = transitions.succeed(decoded, 1, Result(**refs, num_frames=17), stage_s=1.0, now=now)
    await world.change(job, denoised, decoded, done)
    return f"{VIDEOS}/{job}/content"


@pytest.mark.parametrize(
    ("variant", "content", "media_type", "name"),
    [
        pytest.param(None, FILM, "video/mp4", ".mp4", id="none"),
        pytest.param("video", FILM, "video/mp4", ".mp4", id="video"),
        pytest.param("thumbnail", b"still", "image/jpeg", ".jpg", id="thumbnail"),
        pytest.param("spritesheet", b"sheet", "image/jpeg", "-spritesheet.jpg", id="spritesheet"),
    ],
)
async def test_each_variant_is_a_file(
    world: World, client: httpx.AsyncClient, variant: str | None, content: bytes, media_type: str, name: str
) -> None:
    """To be saved under the video's id; HEAD says the same of it."""
    job = (await submit(client))["id"]
    address, params = await finish(world, job), {"variant": variant} if variant else {}
    response = await client.get(address, params=params)
    assert (200, content, media_type) == (response.status_code, response.content, response.headers["content-type"])
    assert f'attachment; filename="{job}{name}"' == response.headers["content-disposition"]
    head = await client.head(address, params=params)
    same = ("content-length", "etag", "last-modified", "accept-ranges", "content-type", "content-disposition")
    assert [response.headers[header] for header in same] == [head.headers[header] for header in same]
    assert b"" == head.content


async def test_ranges_and_conditions_work(world: World, client: httpx.AsyncClient) -> None:
    """As at the other door."""
    address = await finish(world, (await submit(client))["id"])
    part = await client.get(address, headers={"range": "bytes=10-19"})
    assert (206, FILM[10:20], f"bytes 10-19/{len(FILM)}") == (
        part.status_code,
        part.content,
        part.headers["content-range"],
    )
    read_error(await client.get(address, headers={"range": "bytes=99999-"}), 416, "invalid_request")
    assert 304 == (await client.get(address, headers={"if-none-match": part.headers["etag"]})).status_code


async def test_no_file_yet_is_404_and_never_is_422(world: World, client: httpx.AsyncClient) -> None:
    """The first says when to ask again; clients would try 409 again by themselves."""
    job = (await submit(client))["id"]
    waiting = await client.get(f"{VIDEOS}/{job}/content")
    assert "queued" in read_error(waiting, 404, "not_ready")["message"]
    assert "openai-poll-after-ms" in waiting.headers
    record = (await world.start(job)).record
    assert "in_progress" in read_error(await client.get(f"{VIDEOS}/{job}/content"), 404, "not_ready")["message"]
    await world.change(job, transitions.fail(record, 1, Failure.of(FailureCode.DENOISE_FAILED), world.time.now()))
    read_error(await client.get(f"{VIDEOS}/{job}/content"), 422, "not_ready")
    assert 422 == (await client.head(f"{VIDEOS}/{job}/content")).status_code


async def test_nonsense_for_a_variant_is_400(world: World, client: httpx.AsyncClient) -> None:
    """By the parameter's name; a variant that an older video lacks is 404."""
    job = (await submit(client))["id"]
    await world.finish(job)
    address = f"{VIDEOS}/{job}/content"
    assert "variant" == read_error(await client.get(f"{address}?variant=poster"), 400, "invalid_request")["param"]
    read_error(await client.get(f"{address}?variant=spritesheet"), 404, "not_found")


async def test_a_lost_file_is_404(world: World, client: httpx.AsyncClient) -> None:
    """Here record and file expire together."""
    address = await finish(world, (await submit(client))["id"])
    world.store.objects.clear()
    read_error(await client.get(address), 404, "not_found")


@pytest.mark.parametrize("door", ["/v1/videos", "/v1/video-jobs"])
async def test_files_may_come_from_the_store_itself(world: World, door: str) -> None:
    """By setting, at both doors; what the client has already still costs nothing."""
    async with open_door(world.make_app(content="redirect")) as client:
        job = (await submit(client))["id"]
        await finish(world, job)
        address = f"{door}/{job}/content"
        response = await client.get(address)
        assert (307, "no-store") == (response.status_code, response.headers["cache-control"])
        assert job in response.headers["location"]
        head = await client.head(address)
        assert (200, str(len(FILM))) == (head.status_code, head.headers["content-length"])
        assert 304 == (await client.get(address, headers={"if-none-match": head.headers["etag"]})).status_code
