"""The door on a real socket: streams, bodies in pieces, broken files, and closing."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from structlog.testing import capture_logs

from doors import JOBS, PROMPT, World, get_door, read_error, submit, until
from vitascope.adapters.memory import MemoryObjectStore
from vitascope.contracts.events import Progress
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.subjects import progress_subject
from vitascope.ingress.serve import CLOSE_S, serve_door
from vitascope.runtime.listener import open_listener

MOST_HEAD_BYTES = 16 * 1024 * 1024
"""What the sockets on both sides may hold besides."""
WAIT_S = 20.0
FILM = bytes(range(256)) * 16384  # 4 MiB: four pieces


@pytest.fixture(autouse=True)
def logs() -> Iterator[list[Any]]:
    """What is logged, as dicts, instead of on the terminal."""
    with capture_logs() as lines:
        yield lines  # type: ignore[misc]  # structlog's own mutable mappings


@asynccontextmanager
async def _serving(app: FastAPI) -> AsyncIterator[tuple[httpx.AsyncClient, asyncio.Event]]:
    """A client of the application on a free port, and the event that closes the door."""
    stop = asyncio.Event()
    with open_listener("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        serving = asyncio.create_task(serve_door(app, listener, stop), name="door")
        try:
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=WAIT_S) as client:
                yield client, stop
        finally:
            stop.set()
            await asyncio.wait_for(serving, CLOSE_S + WAIT_S)


async def _read_event(lines: AsyncIterator[str]) -> dict[str, str]:
    fields: dict[str, str] = {}
    async with asyncio.timeout(WAIT_S):
        async for line in lines:
            if not line and "data" in fields:
                return fields
            name, _, value = line.partition(": ")
            fields[name] = value
    raise AssertionError("the stream has ended")


async def test_a_stream_shows_a_job_while_it_happens() -> None:
    """States over the ledger's feed and progress over the bus arrive before the job ends, and then the stream ends."""
    world = World()
    app = world.make_app()
    async with _serving(app) as (client, _):
        job = (await submit(client))["id"]
        async with client.stream("GET", f"{JOBS}/{job}/events") as response:
            lines = response.aiter_lines()
            assert "queued" == json.loads((await _read_event(lines))["data"])["status"]
            await world.start(job)
            assert "running" == json.loads((await _read_event(lines))["data"])["status"]
            shown = Progress(job=job, attempt=1, stage="denoise", step=5, steps=24, time=world.time.now())
            await world.broker.bus.publish_progress(progress_subject("default", job), shown)
            assert 5 == json.loads((await _read_event(lines))["data"])["step"]
            await client.post(f"{JOBS}/{job}/cancel")
            last = await _read_event(lines)
            assert ("cancelled", "3") == (json.loads(last["data"])["status"], last["id"])
            assert [] == [line async for line in lines if line]
        assert 0 == get_door(app).streams.count


async def test_a_client_that_leaves_takes_its_stream_along() -> None:
    """Nothing of it stays in the process."""
    app = World().make_app()
    async with _serving(app) as (client, _):
        job = (await submit(client))["id"]
        async with client.stream("GET", f"{JOBS}/{job}/events") as response:
            await _read_event(response.aiter_lines())
            assert 1 == get_door(app).streams.count
        await until(lambda: get_door(app).streams.count == 0, turns=1_000_000)
        assert {} == dict(get_door(app).jobs._listeners)
        assert {} == dict(get_door(app).progress._listeners)


async def test_closing_ends_the_streams() -> None:
    """An open stream ends, whole events only, when the door closes; its client comes back elsewhere."""
    app = World().make_app()
    async with _serving(app) as (client, stop):
        job = (await submit(client))["id"]
        async with client.stream("GET", f"{JOBS}/{job}/events") as response:
            lines = response.aiter_lines()
            await _read_event(lines)
            stop.set()
            async with asyncio.timeout(WAIT_S):
                assert [] == [line async for line in lines if line]


@pytest.mark.parametrize("is_declared", [pytest.param(True, id="length-declared"), pytest.param(False, id="chunked")])
async def test_too_large_a_body_is_refused_while_it_comes(*, is_declared: bool) -> None:
    """413 in the one shape before the client has sent it all; the next request works."""
    app = World().make_app(max_body_bytes=4096)
    async with _serving(app) as (client, _):
        sent = 0

        async def pieces() -> AsyncIterator[bytes]:
            nonlocal sent
            for _ in range(10_000):
                sent += 4096
                yield b"x" * 4096
                await asyncio.sleep(0)

        headers = {"content-type": "application/json"} | ({"content-length": str(4096 * 10_000)} if is_declared else {})
        try:
            response = await client.post(JOBS, content=pieces(), headers=headers)
        except httpx.TransportError:
            pass  # the door closed while the client was still writing: it may not have read the answer
        else:
            assert "4096" in read_error(response, 413, "body_too_large")["message"]
        assert sent < 4096 * 10_000
        await submit(client)


async def test_a_body_cut_off_half_way_makes_nothing(logs: list[Any]) -> None:
    """The client is gone: no job, and the door goes on."""
    world = World()
    async with _serving(world.make_app()) as (client, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", client.base_url.port)
        head = f"POST {JOBS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
        writer.write(head.encode() + b'{"prompt": "a')
        await writer.drain()
        writer.close()
        await writer.wait_closed()
        del reader
        await submit(client)
        assert 1 == await world.count_jobs()
    assert [] == [line for line in logs if line["log_level"] in {"error", "critical"}]


async def test_the_file_over_a_socket() -> None:
    """HEAD has a length and no body; ranges glue together; the connection is used again."""
    world = World()
    async with _serving(world.make_app()) as (client, _):
        job = (await submit(client))["id"]
        await world.finish(job, video=FILM)
        content = f"{JOBS}/{job}/content"
        head = await client.head(content)
        assert (str(len(FILM)), b"") == (head.headers["content-length"], head.content)
        step = 1_000_000
        asked = [f"bytes={start}-{start + step - 1}" for start in range(0, len(FILM), step)]
        pieces = [(await client.get(content, headers={"range": one})).content for one in asked]
        assert FILM == b"".join(pieces) == (await client.get(content)).content


async def test_a_file_that_breaks_off_is_not_taken_for_whole() -> None:
    """The store is lost after the first piece: the client sees an incomplete answer, never a short file."""

    class BreaksOff(MemoryObjectStore):
        async def stream(self, key: str, *, offset: int = 0, length: int | None = None) -> AsyncIterator[bytes]:
            async for piece in super().stream(key, offset=offset, length=length):
                yield piece
                raise VitascopeError(FailureCode.STORE_UNAVAILABLE)

    world = World(store=BreaksOff())
    async with _serving(world.make_app()) as (client, _):
        job = (await submit(client))["id"]
        await world.finish(job, video=FILM)
        with pytest.raises(httpx.RemoteProtocolError):
            await client.get(f"{JOBS}/{job}/content")
        assert 200 == (await client.get("/healthz")).status_code


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"GET / HTTP/9\r\n\r\n", id="version"),
        pytest.param(b"\x16\x03\x01\x02\x00", id="tls"),
        pytest.param(b"POST /v1/video-jobs HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", id="length"),
        pytest.param(b"GET /healthz HTTP/1.1\r\nHost: x\r\nIdempotency-Key: a\x00b\r\n\r\n", id="NUL"),
        pytest.param(b"GET /healthz HTTP/1.1\r\nHost: x\r\nbad header: a\r\n\r\n", id="header name"),
    ],
)
async def test_what_is_no_http_does_no_harm(raw: bytes) -> None:
    """It is told so in the one shape, the connection ends, the door stays open."""
    async with _serving(World().make_app()) as (client, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", client.base_url.port)
        writer.write(raw + b"\r\n\r\n")
        async with asyncio.timeout(WAIT_S):
            head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        await writer.wait_closed()
        assert head.startswith(b"HTTP/1.1 400 Bad Request\r\n")
        assert b"x-content-type-options: nosniff" in head
        assert ("invalid_request", "invalid_request_error") == tuple(
            json.loads(body)["error"][name] for name in ("code", "type")
        )
        assert f"content-length: {len(body)}".encode() in head
        await submit(client)


async def test_a_control_byte_in_a_header_is_refused_by_its_name() -> None:
    """By whoever reads the header; nobody else minds."""
    async with _serving(World().make_app()) as (client, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", client.base_url.port)
        head = b"POST /v1/video-jobs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n"
        writer.write(head + b"Idempotency-Key: a\x01b\r\n\r\n")
        async with asyncio.timeout(WAIT_S):
            status, _, body = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        assert status.startswith(b"HTTP/1.1 400 ")
        error = json.loads(body)["error"]
        assert ("invalid_request", "Idempotency-Key") == (error["code"], error["param"])


async def test_a_head_without_end_is_cut_off() -> None:
    """Long before it fills the memory: with an answer in the one shape, if the client reads it."""
    async with _serving(World().make_app()) as (client, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", client.base_url.port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n")
        sent = 0
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(WAIT_S):
                while not reader.at_eof() and sent < MOST_HEAD_BYTES:
                    writer.write(b"x-filler: " + b"a" * 8000 + b"\r\n")
                    sent += 8012
                    await writer.drain()
                    await asyncio.sleep(0)
        writer.close()
        assert MOST_HEAD_BYTES > sent
        assert 200 == (await client.get("/healthz")).status_code


async def test_a_burst_of_submits_is_taken_whole() -> None:
    """Two hundred at once over many connections: each its own job, each place in the queue once."""
    world = World()
    async with _serving(world.make_app()) as (client, _):
        answers: list[Any] = await asyncio.gather(*(client.post(JOBS, json=PROMPT) for _ in range(200)))
        assert {202} == {answer.status_code for answer in answers}
        assert 200 == len({answer.json()["id"] for answer in answers}) == await world.count_jobs()
        page = (await client.get(JOBS, params={"limit": 100})).json()
        rest = (await client.get(JOBS, params={"limit": 100, "after": page["last_id"]})).json()
        places = [view["queue_position"] for view in page["data"] + rest["data"]]
        assert list(range(200, 0, -1)) == places
