"""Bodies that nobody would send on purpose: never 5xx, one error shape, nothing of the inside, and no memory kept."""

import gc
import json
import tracemalloc
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from doors import JOBS, World, open_door
from vitascope.admission import FIELDS

VIDEOS, ESTIMATE = "/v1/videos", f"{JOBS}/estimate"
INSIDE = ("Traceback", "/functions/", "site-packages", ".py", "inputs/default", "0x7f")
"""What an answer shows if it shows something of the inside."""
MAX_KEPT_BYTES = 4 * 1024 * 1024
"""After forty refused bodies of half a megabyte: caches of parsers, and nothing of the bodies."""

hostile = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
names = st.sampled_from(sorted(FIELDS)) | st.text(max_size=20)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=40)
    | st.sampled_from(
        ["64x64", "data:image/png;base64,", "http://127.0.0.1/x", "../../etc/passwd", "24000/1001", "\x00"]
    ),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
    max_leaves=12,
)
bodies = st.dictionaries(names, values, max_size=6).map(lambda body: {"prompt": "a red circle", **body})


@pytest_asyncio.fixture
async def door(world: World) -> AsyncIterator[httpx.AsyncClient]:
    """A client that gets 500 as an answer, as real ones do."""
    async with open_door(world.make_app(max_queued=100_000), raise_app_exceptions=False) as client:
        yield client


def _check(response: httpx.Response) -> None:
    assert response.status_code < 500, response.text
    if response.status_code >= 400:
        assert {"message", "type", "param", "code"} == set(response.json()["error"]), response.text
    assert not [word for word in INSIDE if word in response.text], response.text


@pytest.mark.parametrize("path", [JOBS, ESTIMATE, VIDEOS])
@hostile
@given(body=bodies)
async def test_any_json(door: httpx.AsyncClient, path: str, body: dict[str, Any]) -> None:
    """Whatever stands in whichever field."""
    content = json.dumps(body).encode()  # with NaN and Infinity, which are no JSON
    _check(await door.post(path, content=content, headers={"content-type": "application/json"}))


@pytest.mark.parametrize("path", [JOBS, ESTIMATE, VIDEOS])
@hostile
@given(
    content=st.binary(max_size=300), kind=st.sampled_from(["application/json", "multipart/form-data; boundary=b", "x"])
)
async def test_any_bytes(door: httpx.AsyncClient, path: str, content: bytes, kind: str) -> None:
    """Under whatever name."""
    _check(await door.post(path, content=content, headers={"content-type": kind}))


part = st.tuples(
    st.sampled_from(
        ["prompt", "size", "input_reference", "image_reference", "extra_params", "video_noise_mask", "x", ""]
    ),
    st.none() | st.sampled_from(["a.png", "../../e.png", "..\\e.png", "a\x00b.png", "", "x" * 600]),
    st.binary(max_size=60) | st.sampled_from([b"{}", b"[[[", b"64x64", b"1e999", b"\xff\xfe"]),
)


@hostile
@given(parts=st.lists(part, max_size=6), cut=st.integers(0, 40), boundary=st.sampled_from(["b", "b" * 70, "--"]))
async def test_any_form(
    door: httpx.AsyncClient, parts: list[tuple[str, str | None, bytes]], cut: int, boundary: str
) -> None:
    """Whole or cut off, with whatever names of fields and files."""
    content = b""
    for name, file, value in parts:
        disposition = f'form-data; name="{name}"' + ("" if file is None else f'; filename="{file}"')
        content += f"--{boundary}\r\nContent-Disposition: {disposition}\r\n\r\n".encode() + value + b"\r\n"
    content += f"--{boundary}--\r\n".encode()
    kind = f"multipart/form-data; boundary={boundary}"
    _check(await door.post(VIDEOS, content=content[: len(content) - cut], headers={"content-type": kind}))


@pytest.mark.parametrize(
    ("path", "kind", "content"),
    [
        pytest.param(JOBS, "application/json", b'{"prompt": "' + b"x" * 500_000 + b'"}', id="long prompt"),
        pytest.param(JOBS, "application/json", b'{"x": ' + b"[" * 100_000, id="deep"),
        pytest.param(JOBS, "application/json", b'{"' + b"y" * 300_000 + b'": 1}', id="long name"),
        pytest.param(
            VIDEOS,
            "multipart/form-data; boundary=b",
            b'--b\r\nContent-Disposition: form-data; name="prompt"\r\n\r\n' + b"x" * 500_000 + b"\r\n--b--\r\n",
            id="long part",
        ),
        pytest.param(
            VIDEOS,
            "multipart/form-data; boundary=b",
            b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n' * 5_000 + b"--b--\r\n",
            id="many parts",
        ),
    ],
)
async def test_memory_stays_flat(door: httpx.AsyncClient, path: str, kind: str, content: bytes) -> None:
    """What is refused is not kept, however often it comes."""
    headers = {"content-type": kind}
    for _ in range(5):
        assert 400 <= (await door.post(path, content=content, headers=headers)).status_code < 500
    gc.collect()
    tracemalloc.start()
    try:
        for _ in range(40):
            _check(await door.post(path, content=content, headers=headers))
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < MAX_KEPT_BYTES
    finally:
        tracemalloc.stop()
