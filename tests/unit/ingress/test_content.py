"""The file itself: ranges, HEAD, conditions (BR-07), and what is said when there is none."""

import itertools
import random

import httpx
import pytest
import pytest_asyncio

from doors import JOBS, World, read_error, submit
from vitascope.contracts import transitions

FILM = random.Random(7).randbytes(2_500_000)  # three pieces of the store's stream
SIZE = len(FILM)


@pytest_asyncio.fixture
async def content(world: World, client: httpx.AsyncClient) -> str:
    """The address of a finished job's file."""
    job = (await submit(client))["id"]
    await world.finish(job, video=FILM, still=b"still")
    return f"{JOBS}/{job}/content"


async def test_the_whole_file(client: httpx.AsyncClient, content: str) -> None:
    """With length, type, entity tag, and a name to save it under."""
    response = await client.get(content)
    assert (200, FILM) == (response.status_code, response.content)
    headers = response.headers
    assert ("video/mp4", str(SIZE), "bytes") == (
        headers["content-type"],
        headers["content-length"],
        headers["accept-ranges"],
    )
    assert headers["etag"].startswith('"')
    assert "nosniff" == headers["x-content-type-options"]
    assert headers["content-disposition"].startswith('inline; filename="vj_')


@pytest.mark.parametrize(
    ("asked", "start", "stop"),
    [
        pytest.param("bytes=0-0", 0, 1, id="first"),
        pytest.param("bytes=0-1023", 0, 1024, id="first-kib"),
        pytest.param(f"bytes={SIZE - 1}-", SIZE - 1, SIZE, id="from-the-last"),
        pytest.param("bytes=-1", SIZE - 1, SIZE, id="last"),
        pytest.param("bytes=1000000-2000000", 1_000_000, 2_000_001, id="across-pieces"),
    ],
)
async def test_a_range_is_206_with_exact_bytes(
    client: httpx.AsyncClient, content: str, asked: str, start: int, stop: int
) -> None:
    """Content-Range and length are exact."""
    response = await client.get(content, headers={"range": asked})
    assert (206, FILM[start:stop]) == (response.status_code, response.content)
    assert f"bytes {start}-{stop - 1}/{SIZE}" == response.headers["content-range"]
    assert str(stop - start) == response.headers["content-length"]


async def test_glued_pieces_are_the_file(client: httpx.AsyncClient, content: str) -> None:
    """Any cuts will do."""
    cuts = [0, 1, 1023, 1_048_576, 1_048_577, 2_000_000, SIZE]
    pieces = [
        (await client.get(content, headers={"range": f"bytes={start}-{stop - 1}"})).content
        for start, stop in itertools.pairwise(cuts)
    ]
    assert FILM == b"".join(pieces)


async def test_past_the_end_is_416(client: httpx.AsyncClient, content: str) -> None:
    """With the size that the file has, in the one error shape."""
    response = await client.get(content, headers={"range": f"bytes={SIZE}-"})
    assert "Range" == read_error(response, 416, "invalid_request")["param"]
    assert f"bytes */{SIZE}" == response.headers["content-range"]


@pytest.mark.parametrize("asked", ["bytes=5-2", "bytes=abc", "bytes=0-0,5-6"])
async def test_what_is_no_single_range_is_the_whole(client: httpx.AsyncClient, content: str, asked: str) -> None:
    """200, not 400 and not 416."""
    response = await client.get(content, headers={"range": asked})
    assert (200, SIZE) == (response.status_code, len(response.content))
    assert "content-range" not in response.headers


async def test_head_says_what_get_would(client: httpx.AsyncClient, content: str) -> None:
    """Length, type and ranges; no body; a range is not looked at."""
    head = await client.head(content, headers={"range": "bytes=0-1"})
    got = await client.get(content)
    assert (200, b"") == (head.status_code, head.content)
    names = ("content-length", "content-type", "accept-ranges", "etag", "last-modified", "content-disposition")
    assert [got.headers[name] for name in names] == [head.headers[name] for name in names]


async def test_conditions(client: httpx.AsyncClient, content: str) -> None:
    """304 for what the client has, whole file for a range of something older."""
    headers = (await client.head(content)).headers
    for condition in ({"if-none-match": headers["etag"]}, {"if-modified-since": headers["last-modified"]}):
        for response in (await client.get(content, headers=condition), await client.head(content, headers=condition)):
            assert (304, b"") == (response.status_code, response.content)
            assert headers["etag"] == response.headers["etag"]
    stale = await client.get(content, headers={"range": "bytes=0-9", "if-range": '"other"'})
    assert (200, SIZE) == (stale.status_code, len(stale.content))
    fresh = await client.get(content, headers={"range": "bytes=0-9", "if-range": headers["etag"]})
    assert (206, FILM[:10]) == (fresh.status_code, fresh.content)


async def test_the_thumbnail_is_a_variant(client: httpx.AsyncClient, content: str) -> None:
    """Another object with another tag and type."""
    response = await client.get(content, params={"variant": "thumbnail"})
    assert (b"still", "image/jpeg") == (response.content, response.headers["content-type"])
    assert response.headers["etag"] != (await client.head(content)).headers["etag"]
    read_error(await client.get(content, params={"variant": "poster"}), 400, "invalid_request")


async def test_a_job_without_a_file_says_why(client: httpx.AsyncClient) -> None:
    """Come back later, never, or too late."""
    job = (await submit(client))["id"]
    content = f"{JOBS}/{job}/content"
    waiting = await client.get(content)
    read_error(waiting, 409, "not_ready")
    assert int(waiting.headers["retry-after"]) > 0
    assert 409 == (await client.head(content)).status_code
    await client.post(f"{JOBS}/{job}/cancel")
    ended = await client.get(content)
    assert "cancelled" in read_error(ended, 409, "not_ready")["message"]
    assert "retry-after" not in ended.headers


async def test_an_expired_result_is_gone(world: World, client: httpx.AsyncClient) -> None:
    """By the record, or because the file is no longer in the store: 410 either way."""
    by_record, by_store = [(await submit(client))["id"] for _ in range(2)]
    done = await world.finish(by_record)
    await world.change(by_record, transitions.expire(done.record, world.time.now()))
    await world.finish(by_store)
    world.store.objects.clear()
    for job in (by_record, by_store):
        read_error(await client.get(f"{JOBS}/{job}/content"), 410, "content_expired")


async def test_a_lost_store_is_503(world: World, client: httpx.AsyncClient, content: str) -> None:
    """Before the first byte is sent, so that it is a clear answer."""
    world.store.is_away = True
    response = await client.get(content)
    read_error(response, 503, "service_unavailable")
    assert "content-range" not in response.headers
