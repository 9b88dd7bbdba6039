"""Multipart bodies: read as they come, in pieces of any size, within their limits, and nothing left behind."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import Request

from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.ingress.forms import Form, FormLimits, read_form
from vitascope.ingress.rooms import Room

TEXT_MAX, FILE_MAX = 100, 1000
LIMITS = FormLimits(
    max_parts=5, text_bytes=lambda _: TEXT_MAX, file_bytes=lambda name: FILE_MAX if name == "file" else None
)


def make_request(content: bytes, content_type: str, piece: int, *, breaks_off: bool = False) -> Request:
    pieces = [content[place : place + piece] for place in range(0, len(content), piece)] or [b""]

    async def receive() -> Any:
        if pieces:
            return {"type": "http.request", "body": pieces.pop(0), "more_body": bool(pieces) or breaks_off}
        return {"type": "http.disconnect"}

    return Request({"type": "http", "method": "POST", "headers": [(b"content-type", content_type.encode())]}, receive)


def encode(parts: Any) -> tuple[bytes, str]:
    made = httpx.Request("POST", "http://x", files=parts)
    return made.read(), made.headers["content-type"]


async def read(folder: Path, content: bytes, content_type: str, piece: int = 64, **more: Any) -> Form:
    disk, memory = more.pop("disk", Room(10**6, "full")), more.pop("memory", Room(10**6, "full"))
    with disk.lease() as on_disk, memory.lease() as in_memory:
        request = make_request(content, content_type, piece, **more)
        return await read_form(request, folder, LIMITS, disk=on_disk, memory=in_memory)


PARTS = [
    ("prompt", (None, "a red circle \u00e4")),
    ("file", ("../../etc/passwd", bytes(range(256)) * 3, "image/png")),
    ("prompt", (None, "the last one counts")),
    ("file", ("b.mp4", b"nameless", "video/mp4; x=y")),
]


@pytest.mark.parametrize("piece", [1, 7, 64, 10**6], ids=lambda piece: f"{piece} at a time")
async def test_texts_and_files_come_whole(tmp_path: Path, piece: int) -> None:
    """However the body is cut; the client's name of a file is no path."""
    form = await read(tmp_path, *encode(PARTS), piece)
    assert {"prompt": "the last one counts"} == form.texts
    first, second = form.uploads
    assert ("file", "../../etc/passwd", "image/png", 768) == (first.field, first.name, first.media_type, first.bytes)
    assert bytes(range(256)) * 3 == first.path.read_bytes()
    assert ("video/mp4", b"nameless") == (second.media_type, second.path.read_bytes())
    assert {tmp_path} == {upload.path.parent for upload in form.uploads}


async def test_a_field_without_a_file_is_absent(tmp_path: Path) -> None:
    """Browsers send a part of no name and no bytes for it; a file of no bytes with a name is one."""
    form = await read(tmp_path, *encode([("file", ("a.png", b"")), ("prompt", (None, "p"))]))
    assert [0] == [upload.bytes for upload in form.uploads]
    body = b'--b\r\nContent-Disposition: form-data; name="file"; filename=""\r\n\r\n\r\n--b--\r\n'
    assert [] == (await read(tmp_path, body, "multipart/form-data; boundary=b")).uploads


@pytest.mark.parametrize(
    ("parts", "code", "param"),
    [
        pytest.param([("prompt", (None, "x" * 101))], "body_too_large", "prompt", id="long text"),
        pytest.param([("file", ("a", b"x" * 1001))], "media_too_large", "file", id="large file"),
        pytest.param([("prompt", ("a", b"x"))], "unknown_field", "prompt", id="file for a text"),
        pytest.param([(f"p{n}", (None, "x")) for n in range(6)], "body_too_large", None, id="many parts"),
        pytest.param([("prompt", (None, b"\xff"))], "invalid_request", "prompt", id="not UTF-8"),
        pytest.param([("n" * 129, (None, b"x"))], "unknown_field", None, id="long name"),
    ],
)
async def test_what_is_too_much_is_refused(tmp_path: Path, parts: Any, code: str, param: str | None) -> None:
    """As soon as it is known, by the field's name."""
    with pytest.raises(VitascopeError) as caught:
        await read(tmp_path, *encode(parts))
    assert (code, param) == (caught.value.code, caught.value.param)


@pytest.mark.parametrize(
    ("content", "content_type"),
    [
        pytest.param(b"nonsense", "multipart/form-data; boundary=b", id="no boundary inside"),
        pytest.param(b"", "multipart/form-data; boundary=b", id="empty"),
        pytest.param(b"--b--\r\n", "multipart/form-data", id="no boundary named"),
        pytest.param(b"--b--\r\n", f"multipart/form-data; boundary={'b' * 300}", id="long boundary"),
        pytest.param(
            b"--b\r\nContent-Disposition: form-data\r\n\r\nx\r\n--b--\r\n",
            "multipart/form-data; boundary=b",
            id="no name",
        ),
        pytest.param(b"--b\r\nX\r\n\r\nx\r\n--b--\r\n", "multipart/form-data; boundary=b", id="broken header"),
        pytest.param(
            b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\nx', "multipart/form-data; boundary=b", id="no end"
        ),
        pytest.param(
            b'--b\r\nContent-Disposition: form-data; name="a"\r\n'
            b"Content-Transfer-Encoding: base64\r\n\r\neA==\r\n--b--\r\n",
            "multipart/form-data; boundary=b",
            id="encoded part",
        ),
        pytest.param(
            b"--b\r\n" + b"A: b\r\n" * 50 + b"\r\nx\r\n--b--\r\n", "multipart/form-data; boundary=b", id="many headers"
        ),
    ],
)
async def test_what_is_no_form_is_refused(tmp_path: Path, content: bytes, content_type: str) -> None:
    """In the one way."""
    with pytest.raises(VitascopeError) as caught:
        await read(tmp_path, content, content_type)
    assert FailureCode.INVALID_REQUEST is caught.value.code


async def test_a_body_that_breaks_off_is_refused(tmp_path: Path) -> None:
    """The file that had begun is closed."""
    content, content_type = encode(PARTS)
    with pytest.raises(VitascopeError) as caught:
        await read(tmp_path, content[:-200], content_type, breaks_off=True)
    assert FailureCode.INVALID_REQUEST is caught.value.code


async def test_a_request_that_finds_no_room_is_to_come_again(tmp_path: Path) -> None:
    """And what it had taken is free again."""
    disk = Room(500, "The disk is full of uploads.")
    with pytest.raises(VitascopeError) as caught:
        await read(tmp_path, *encode(PARTS), disk=disk)
    assert FailureCode.SERVICE_UNAVAILABLE is caught.value.code
    assert "full of uploads" in str(caught.value)
    assert 0 == disk.taken


async def test_memory_stays_flat_while_a_file_comes(tmp_path: Path) -> None:
    """A file of 64 MiB in pieces takes a small part of that."""
    import tracemalloc  # noqa: PLC0415 (only here)

    size, piece = 64 * 1024 * 1024, b"x" * 65536
    head = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'

    async def receive_all() -> AsyncIterator[dict[str, Any]]:
        yield {"type": "http.request", "body": head, "more_body": True}
        for _ in range(size // len(piece)):
            yield {"type": "http.request", "body": piece, "more_body": True}
        yield {"type": "http.request", "body": b"\r\n--b--\r\n", "more_body": False}

    messages = receive_all()
    request = Request(
        {"type": "http", "method": "POST", "headers": [(b"content-type", b"multipart/form-data; boundary=b")]},
        lambda: anext(messages),
    )
    limits = FormLimits(5, lambda _: TEXT_MAX, lambda _: size)
    disk, memory = Room(size, "full").lease(), Room(1000, "full").lease()
    tracemalloc.start()
    try:
        form = await read_form(request, tmp_path, limits, disk=disk, memory=memory)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert size == form.uploads[0].bytes == form.uploads[0].path.stat().st_size
    assert peak < 8 * 1024 * 1024
