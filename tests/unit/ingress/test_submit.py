"""`POST /v1/video-jobs`: what is answered, and that a refusal leaves nothing behind (BR-02, BR-03, BR-05)."""

import json
import tracemalloc
from fractions import Fraction
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from doors import JOBS, PROMPT, World, open_door, read_error, submit
from vitascope.contracts.jobs import JobRecord
from vitascope.contracts.objects import record_key

JSON_TYPE = {"content-type": "application/json"}

BAD_FIELDS = [
    ("br02-fps-nought", {"fps": 0}, "invalid_request", "fps"),
    ("br02-fps-negative", {"fps": -1}, "invalid_request", "fps"),
    ("br02-fps-nan", {"fps": "NaN"}, "invalid_request", "fps"),
    ("br02-fps-billion", {"fps": 1e9}, "invalid_request", "fps"),
    ("br03-54x30", {"width": 54, "height": 30}, "shape_not_allowed", "width"),
    ("br03-width-33", {"width": 33, "height": 64}, "shape_not_allowed", "width"),
    ("br03-frames-16", {"frames": 16}, "shape_not_allowed", "frames"),
    ("br03-0x0", {"size": "0x0"}, "invalid_request", "size"),
    ("br03-64X48", {"size": "64X48"}, "invalid_request", "size"),
    ("br03-64x48x3", {"size": "64x48x3"}, "invalid_request", "size"),
    ("br05-seed-2-63", {"seed": 2**63}, "invalid_request", "seed"),
    ("br05-seed-below", {"seed": -(2**63) - 1}, "invalid_request", "seed"),
    ("br05-seed-float", {"seed": 1.5}, "invalid_request", "seed"),
    ("br05-seed-text", {"seed": "7"}, "invalid_request", "seed"),
    ("br05-steps-billion", {"steps": 10**9}, "invalid_request", "steps"),
    ("br05-steps-nought", {"steps": 0}, "invalid_request", "steps"),
    ("br05-steps-negative", {"steps": -3}, "invalid_request", "steps"),
    ("br05-steps-true", {"steps": True}, "invalid_request", "steps"),
    ("br05-width", {"width": 2**31, "height": 64}, "shape_not_allowed", "width"),
    ("br05-frames", {"frames": 10**7}, "shape_not_allowed", "frames"),
    ("br05-prompt-nul", {"prompt": "a\0b"}, "invalid_request", "prompt"),
    ("br05-prompt-surrogate", {"prompt": "a\ud800b"}, "invalid_request", "prompt"),
    ("unknown-model", {"model": "sora"}, "model_not_found", "model"),
    ("prompt-empty", {"prompt": ""}, "invalid_request", "prompt"),
    ("prompt-long", {"prompt": "x" * 4097}, "invalid_request", "prompt"),
    ("unknown-field", {"stepps": 3}, "unknown_field", "stepps"),
    ("sound", {"generate_sound": True}, "capability_missing", "generate_sound"),
]

BAD_BODIES = [
    ("list", b"[]", JSON_TYPE, 400, "invalid_json"),
    ("empty", b"", JSON_TYPE, 400, "invalid_json"),
    ("no-json", b"prompt=x", JSON_TYPE, 400, "invalid_json"),
    ("infinity", b'{"prompt": "x", "guidance": Infinity}', JSON_TYPE, 400, "invalid_json"),
    ("twice", b'{"prompt": "x", "prompt": "y"}', JSON_TYPE, 400, "invalid_json"),
    ("deep", b'{"extra_params": ' + b"[" * 5000 + b"]" * 5000 + b"}", JSON_TYPE, 400, "invalid_json"),
    ("text", b'{"prompt": "x"}', {"content-type": "text/plain"}, 415, "unsupported_media_type"),
    ("form", b"prompt=x", {"content-type": "application/x-www-form-urlencoded"}, 415, "unsupported_media_type"),
    ("no-type", b'{"prompt": "x"}', {}, 415, "unsupported_media_type"),
    ("charset", b"{}", {"content-type": "application/json; charset=utf-16"}, 415, "unsupported_media_type"),
    ("gzip", b"{}", {**JSON_TYPE, "content-encoding": "gzip"}, 415, "unsupported_media_type"),
    ("2-mb-prompt", b'{"prompt": "' + b"x" * 2_000_000 + b'"}', JSON_TYPE, 413, "body_too_large"),
]


@pytest.mark.parametrize(("body", "code", "param"), [pytest.param(*rest, id=name) for name, *rest in BAD_FIELDS])
async def test_a_wrong_field_is_named_and_nothing_is_made(
    world: World,
    client: httpx.AsyncClient,
    body: dict[str, Any],
    code: str,
    param: str,
) -> None:
    """400, or 404 for a model; neither a record nor a copy nor a place in the list."""
    content = json.dumps(PROMPT | body).encode()
    response = await client.post(JOBS, content=content, headers={**JSON_TYPE, "Idempotency-Key": "k"})
    error = read_error(response, 404 if code == "model_not_found" else 400, code)
    assert param == error["param"]
    await _check_nothing_made(world, client)
    await submit(client, key="k")  # the key is still free: a refused body does not use it up


@pytest.mark.parametrize(
    ("content", "headers", "status", "code"),
    [pytest.param(*rest, id=name) for name, *rest in BAD_BODIES],
)
async def test_a_wrong_body_is_refused_and_nothing_is_made(
    world: World,
    client: httpx.AsyncClient,
    content: bytes,
    headers: dict[str, str],
    status: int,
    code: str,
) -> None:
    """Before any field is looked at; a normal job is taken right after it."""
    response = await client.post(JOBS, content=content, headers=headers)
    read_error(response, status, code)
    await _check_nothing_made(world, client)
    await submit(client)


async def test_a_body_that_grows_past_the_limit_is_not_read_on(app: FastAPI, client: httpx.AsyncClient) -> None:
    """Sent in pieces without a length: refused as soon as it passes the limit, and memory stays flat (BR-05)."""
    limit = app.state.door.deps.settings.max_body_bytes
    sent = 0

    async def pieces() -> Any:
        nonlocal sent
        while sent < 100 * limit:
            sent += 65536
            yield b"x" * 65536

    tracemalloc.start()
    response = await client.post(JOBS, content=pieces(), headers=JSON_TYPE)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    error = read_error(response, 413, "body_too_large")
    assert str(limit) in error["message"]
    assert limit <= sent <= limit + 2 * 65536
    assert peak_bytes < 8 * limit


async def test_the_answer_tells_everything_that_was_decided(world: World, client: httpx.AsyncClient) -> None:
    """Effective values, price, place and expected start; the record and its copy are there."""
    await world.keep_rows("default")
    response = await client.post(JOBS, json=PROMPT | {"size": "96x64", "frames": 25, "steps": 20, "seed": -5})
    view = response.json()
    assert 202 == response.status_code
    assert f"{JOBS}/{view['id']}" == response.headers["location"]
    effective = {name: view[name] for name in ("status", "model", "width", "height", "num_frames", "fps", "seed")}
    wanted = {"status": "queued", "model": "tiny-wan", "width": 96, "height": 64, "num_frames": 25, "fps": 8}
    assert wanted | {"seed": -5} == effective
    assert (20, 4.0, 1) == (view["num_inference_steps"], view["guidance_scale"], view["queue_position"])
    assert view["price_units"] >= view["estimated_gpu_seconds"] > 0.9
    record = (await world.load(view["id"])).record
    assert record == JobRecord.from_bytes(world.store.objects[record_key(record)])
    assert "application/json" == world.store.content_types[record_key(record)]


@pytest.mark.parametrize(
    ("fps", "shown"),
    [
        pytest.param(23.976, "24000/1001", id="decimal"),
        pytest.param("24000/1001", "24000/1001", id="ratio"),
        pytest.param(29.97, "30000/1001", id="29.97"),
        pytest.param(8.0, 8, id="whole"),
    ],
)
async def test_br02_the_job_reports_the_exact_rate(client: httpx.AsyncClient, fps: object, shown: object) -> None:
    """In the form that a request takes; the duration is frames over rate."""
    view = await submit(client, fps=fps)
    assert shown == view["fps"]
    assert float(17 / Fraction(view["fps"])) == view["duration_s"]
    again = await submit(client, fps=view["fps"])
    assert shown == again["fps"]


async def test_a_drawn_seed_is_told_and_kept(world: World, client: httpx.AsyncClient) -> None:
    """Two jobs without a seed get two, exact in any JSON reader, and the record has them."""
    views = [await submit(client) for _ in range(2)]
    assert views[0]["seed"] != views[1]["seed"]
    for view in views:
        assert 0 <= view["seed"] < 2**53
        assert view["seed"] == (await world.load(view["id"])).record.request.seed


async def test_a_full_queue_refuses(world: World) -> None:
    """429 with Retry-After; a cancelled job makes room."""
    async with open_door(world.make_app(max_queued=1)) as client:
        first = await submit(client)
        response = await client.post(JOBS, json=PROMPT)
        read_error(response, 429, "queue_full")
        assert int(response.headers["retry-after"]) > 0
        assert 1 == await world.count_jobs()
        await client.post(f"{JOBS}/{first['id']}/cancel")
        await submit(client)


async def _check_nothing_made(world: World, client: httpx.AsyncClient) -> None:
    assert 0 == await world.count_jobs()
    assert {} == world.store.objects
    assert [] == (await client.get(JOBS)).json()["data"]
