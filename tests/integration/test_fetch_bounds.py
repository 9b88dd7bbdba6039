"""Servers that are slow, endless, broken or lying: a fetch ends, and takes no more than it may."""

import asyncio
import base64
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from doors import make_reader
from fetching import JOB, LIMIT, TENANT, is_empty, refuse
from media_files import pixel_bomb, png
from strange_internet import Exchange, Internet, open_internet
from vitascope.adapters.memory import MemoryObjectStore
from vitascope.contracts.failures import FailureCode
from vitascope.ingress.references import ReferenceSource

FETCH_FAILED = FailureCode.FETCH_FAILED


@pytest_asyncio.fixture
async def internet() -> AsyncIterator[Internet]:
    async with open_internet() as made:
        yield made


@pytest.mark.parametrize("status", [204, 206, 304, 401, 404, 500])
async def test_other_status(status: int, internet: Internet, tmp_path: Path) -> None:
    """Only a whole answer is one."""
    assert FETCH_FAILED == await refuse(internet, internet.page("/a", png(), status), tmp_path)


async def test_declared_too_long(internet: Internet, tmp_path: Path) -> None:
    """Refused before any of it is read."""
    url = internet.page("/a", content_length=str(LIMIT + 1))

    assert FailureCode.MEDIA_TOO_LARGE == await refuse(internet, url, tmp_path)


async def test_endless(internet: Internet, tmp_path: Path) -> None:
    """Refused as soon as it is too long, whatever it did not declare."""
    ended = asyncio.Event()

    async def flood(exchange: Exchange) -> None:
        try:
            await exchange.send(b"HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\n")
            while True:
                await exchange.send(b"4000\r\n" + b"a" * 0x4000 + b"\r\n")
        finally:
            ended.set()

    internet.pages["/a"] = flood

    assert FailureCode.MEDIA_TOO_LARGE == await refuse(internet, internet.url("/a"), tmp_path)
    await asyncio.wait_for(ended.wait(), 5)  # the connection was closed


async def test_drop_by_drop(internet: Internet, tmp_path: Path) -> None:
    """A server that always sends a little more does not hold a request for ever."""

    async def drip(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 200 X\r\ncontent-length: 50000\r\n\r\n")
        while True:
            await exchange.send(b"a")
            await asyncio.sleep(0.01)

    internet.pages["/a"] = drip

    assert FETCH_FAILED == await refuse(internet, internet.url("/a"), tmp_path, fetch_timeout_s=0.5)


async def test_silence(internet: Internet, tmp_path: Path) -> None:
    """Nor does one that says nothing."""

    async def wait(_exchange: Exchange) -> None:
        await asyncio.sleep(60)

    internet.pages["/a"] = wait

    assert FETCH_FAILED == await refuse(internet, internet.url("/a"), tmp_path, fetch_timeout_s=0.3)


async def test_slow_servers_hold_up_no_upload(internet: Internet, tmp_path: Path) -> None:
    """Whoever brings a file is served while every fetch waits."""
    reached = asyncio.Event()

    async def wait(_exchange: Exchange) -> None:
        reached.set()
        await asyncio.sleep(60)

    internet.pages["/a"] = wait
    async with internet.outbound() as outbound:
        reader = make_reader(MemoryObjectStore(), folder=tmp_path, outbound=outbound, fetches=1, concurrency=1)
        slow = ReferenceSource("image_reference", None, url=internet.url("/a"))
        fetching = asyncio.create_task(reader.read([slow], tenant=TENANT, job=JOB))
        await reached.wait()
        at_once = ReferenceSource(
            "image_reference", None, url="data:image/png;base64," + base64.b64encode(png()).decode()
        )
        assert 1 == len(await reader.read([at_once], tenant=TENANT, job=JOB))
        assert not fetching.done()
        fetching.cancel()
        await asyncio.gather(fetching, return_exceptions=True)
    assert is_empty(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"HTTP/1.1 200 X\r\ncontent-length: 5000\r\n\r\nabc", id="broken off"),
        pytest.param(b"HTTP/1.1 200 X\r\ncontent-length: -1\r\n\r\nabc", id="negative length"),
        pytest.param(b"HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", id="bad chunk"),
        pytest.param(b"220 mail.example ESMTP\r\n", id="another protocol"),
        pytest.param(b"", id="closed"),
        pytest.param(b"HTTP/1.1 200 X\r\na: " + b"b" * 300_000, id="endless header"),
        pytest.param(b"HTTP/1.1 302 X\r\ncontent-length: 0\r\n\r\n", id="redirect to nowhere"),
        pytest.param(b"HTTP/1.1 200 X\r\ncontent-encoding: gzip\r\ncontent-length: 3\r\n\r\nabc", id="compressed"),
    ],
)
async def test_broken_answer(content: bytes, internet: Internet, tmp_path: Path) -> None:
    """Whatever it is, it is a fetch that failed."""

    async def handle(exchange: Exchange) -> None:
        await exchange.send(content)

    internet.pages["/a"] = handle

    assert FETCH_FAILED == await refuse(internet, internet.url("/a"), tmp_path)


@pytest.mark.parametrize(
    ("content", "code"),
    [
        pytest.param(pixel_bomb(), FailureCode.MEDIA_TOO_LARGE, id="pixel bomb"),
        pytest.param(b"PK\x03\x04" + b"\0" * 1000, FailureCode.MEDIA_INVALID, id="zip"),
        pytest.param(b"\x1f\x8b\x08" + b"\0" * 1000, FailureCode.MEDIA_INVALID, id="gzip"),
        pytest.param(png()[:70], FailureCode.MEDIA_INVALID, id="cut off"),
        pytest.param(b"", FailureCode.MEDIA_INVALID, id="empty"),
        pytest.param(b"<html>not found</html>", FailureCode.MEDIA_INVALID, id="page"),
    ],
)
async def test_lying_media(content: bytes, code: FailureCode, internet: Internet, tmp_path: Path) -> None:
    """Whatever the server calls it."""
    assert code == await refuse(internet, internet.page("/a.png", content, content_type="image/png"), tmp_path)
