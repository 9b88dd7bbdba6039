"""`POST /v1/videos`: every notation, every field of its own, and refusals that leave nothing behind."""

from fractions import Fraction
from typing import Any

import httpx
import pytest

from doors import JOBS, World, open_door, read_error
from unit.ingress.videos.conftest import VIDEOS

PROMPT = {"prompt": "a red circle moving right on a white background"}
KEYS = {
    "id", "object", "status", "model", "prompt", "size", "seconds", "quality", "progress", "seed", "created_at",
    "completed_at", "expires_at", "remixed_from_video_id", "error", "media_type", "file_name", "inference_time_s",
    "fps", "num_frames", "duration_s", "metrics", "stage_durations", "peak_memory_mb", "action",
}  # fmt: skip


def as_form(fields: dict[str, Any]) -> Any:
    return [(name, (None, str(value))) for name, value in fields.items()]


@pytest.mark.parametrize("notation", ["multipart", "urlencoded", "json"])
async def test_each_notation_makes_the_same_job(world: World, client: httpx.AsyncClient, notation: str) -> None:
    """A record with every key, and a job that the other API shows, too."""
    fields = PROMPT | {"size": "64x64", "seconds": "2", "seed": 7, "num_inference_steps": 9, "fps": 8}
    sent: dict[str, Any] = {
        "multipart": {"files": as_form(fields)},
        "urlencoded": {"data": fields},
        "json": {"json": fields},
    }
    response = await client.post(VIDEOS, **sent[notation])
    assert 200 == response.status_code, response.text
    view = response.json()
    assert KEYS == set(view)
    assert ("video", "queued", "64x64", "2", 0, 7, None) == tuple(
        view[name] for name in ("object", "status", "size", "seconds", "progress", "seed", "error")
    )
    assert (8.0, 17, 2.125, "default", "tiny-wan") == tuple(
        view[name] for name in ("fps", "num_frames", "duration_s", "quality", "model")
    )
    assert "1000" == response.headers["openai-poll-after-ms"]
    assert f"{VIDEOS}/{view['id']}" == response.headers["location"]
    job = (await client.get(f"{JOBS}/{view['id']}")).json()
    assert ("queued", 9, 7, 17) == tuple(job[name] for name in ("status", "num_inference_steps", "seed", "num_frames"))
    record = (await world.load(view["id"])).record
    assert ("videos", Fraction(8)) == (record.admission.door, record.request.fps)


REFUSED = [
    pytest.param({"seed": "a"}, "invalid_request", "seed", id="seed-text"),
    pytest.param({"prompt": ""}, "invalid_request", "prompt", id="prompt-empty"),
    pytest.param({"model": "sora-2"}, "model_not_found", "model", id="model"),
    pytest.param({"seconds": "0"}, "invalid_request", "seconds", id="seconds-0"),
    pytest.param({"seconds": "1.5"}, "invalid_request", "seconds", id="seconds-1.5"),
    pytest.param({"seconds": "400"}, "shape_not_allowed", "seconds", id="seconds-400"),
    pytest.param({"size": "64X64"}, "invalid_request", "size", id="size-X"),
    pytest.param({"size": "0x0"}, "invalid_request", "size", id="size-0"),
    pytest.param({"size": "1280x720"}, "shape_not_allowed", "size", id="size-not-offered"),
    pytest.param({"num_inference_steps": "0"}, "invalid_request", "num_inference_steps", id="steps-0"),
    pytest.param({"num_inference_steps": "201"}, "invalid_request", "num_inference_steps", id="steps-201"),
    pytest.param({"guidance_scale": "20.01"}, "invalid_request", "guidance_scale", id="guidance"),
    pytest.param({"fps": "0.5"}, "invalid_request", "fps", id="fps-0.5"),
    pytest.param({"extra_params": "[1]"}, "invalid_request", "extra_params", id="extras-list"),
    pytest.param({"extra_params": "{bad"}, "invalid_request", "extra_params", id="extras-broken"),
    pytest.param({"extra_params": '{"x": 1}'}, "capability_missing", "extra_params.x", id="extras-unknown"),
    pytest.param({"lora": '{"name": "x"}'}, "capability_missing", "lora", id="lora"),
    pytest.param({"quality": "ultra"}, "invalid_request", "quality", id="quality"),
    pytest.param({"num_outputs_per_prompt": "0"}, "invalid_request", "num_outputs_per_prompt", id="outputs-0"),
    pytest.param({"num_outputs_per_prompt": "11"}, "invalid_request", "num_outputs_per_prompt", id="outputs-11"),
    pytest.param({"num_outputs_per_prompt": "2"}, "capability_missing", "num_outputs_per_prompt", id="outputs-2"),
    pytest.param({"boundary_ratio": "0.5"}, "capability_missing", "boundary_ratio", id="boundary"),
    pytest.param({"generate_sound": "true"}, "capability_missing", "generate_sound", id="sound"),
    pytest.param({"start_time_seconds": "-1"}, "capability_missing", "start_time_seconds", id="start"),
    pytest.param(
        {"image_reference": '{"image_url": "http://x.example/"}'}, "capability_missing", "image_reference", id="image"
    ),
    pytest.param({"input_reference": "text"}, "invalid_request", "input_reference", id="text for a file"),
    pytest.param({"control_type": "edge"}, "capability_missing", "control_type", id="control"),
    pytest.param({"user": "x" * 513}, "invalid_request", "user", id="user"),
    pytest.param({"stepps": "3"}, "unknown_field", "stepps", id="unknown"),
]


@pytest.mark.parametrize(("fields", "code", "param"), REFUSED)
async def test_a_wrong_field_is_400_by_name(
    world: World, client: httpx.AsyncClient, fields: dict[str, str], code: str, param: str
) -> None:
    """And nothing is made."""
    response = await client.post(VIDEOS, files=as_form(PROMPT | fields))
    assert param == read_error(response, 400, code)["param"]
    assert 0 == await world.count_jobs()
    assert {} == world.store.objects


async def test_a_refused_length_names_what_would_do(client: httpx.AsyncClient) -> None:
    """The nearest and the allowed."""
    error = read_error(await client.post(VIDEOS, data=PROMPT | {"seconds": "400"}), 400, "shape_not_allowed")
    assert "nearest" in error["message"]
    assert "64x64" in error["message"]


async def test_size_goes_before_width_and_height(client: httpx.AsyncClient) -> None:
    """And the number of frames before the seconds."""
    fields = PROMPT | {"size": "64x64", "width": 5, "height": 5, "num_frames": 17, "seconds": "400"}
    view = (await client.post(VIDEOS, data=fields)).json()
    assert ("64x64", 17) == (view["size"], view["num_frames"])


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({"quality": "high"}, {"crf": "12"}, id="high"),
        pytest.param({"quality": "lossless"}, {"crf": "1"}, id="lossless"),
        pytest.param({"quality": "high", "video_codec_options": '{"crf": 30}'}, {"crf": "30"}, id="said otherwise"),
        pytest.param(
            {"quality": "high", "extra_params": '{"video_codec_options": {"preset": "fast"}}'},
            {"crf": "12", "preset": "fast"},
            id="beside other options",
        ),
    ],
)
async def test_quality_is_a_rate_factor(
    world: World, client: httpx.AsyncClient, fields: dict[str, str], expected: dict[str, str]
) -> None:
    """And the record shows it again."""
    view = (await client.post(VIDEOS, data=PROMPT | fields)).json()
    assert fields["quality"] == view["quality"]
    assert expected == (await world.load(view["id"])).record.request.video_codec_options


async def test_fields_of_the_clients_own_books_are_taken(world: World, client: httpx.AsyncClient) -> None:
    """The user is not kept; stage metrics come once there are some."""
    fields = PROMPT | {"user": "u-1234", "return_stage_metrics": "true", "num_outputs_per_prompt": "1"}
    view = (await client.post(VIDEOS, data=fields)).json()
    assert "u-1234" not in (await world.load(view["id"])).record.model_dump_json()
    assert view["metrics"] is None
    await world.finish(view["id"])
    assert {"queue_s", "gpu_s", "stage_s", "attempts"} == set(
        (await client.get(f"{VIDEOS}/{view['id']}")).json()["metrics"]
    )


async def test_a_key_makes_one_video(world: World, client: httpx.AsyncClient) -> None:
    """The same request has the same answer; another one, or the same at another door, is 409."""
    headers = {"Idempotency-Key": "k1"}
    first = await client.post(VIDEOS, data=PROMPT, headers=headers)
    again = await client.post(VIDEOS, data=PROMPT, headers=headers)
    assert first.json()["id"] == again.json()["id"]
    assert "true" == again.headers["idempotency-replayed"]
    read_error(await client.post(VIDEOS, data=PROMPT | {"seed": 1}, headers=headers), 409, "idempotency_conflict")
    read_error(await client.post(JOBS, json=PROMPT, headers=headers), 409, "idempotency_conflict")
    assert 1 == await world.count_jobs()


async def test_other_bodies_are_415(client: httpx.AsyncClient) -> None:
    """With the three that are taken."""
    response = await client.post(VIDEOS, content=b"x", headers={"content-type": "text/plain"})
    assert "multipart/form-data" in read_error(response, 415, "unsupported_media_type")["message"]


async def test_a_long_text_is_413(client: httpx.AsyncClient) -> None:
    """With the limit, and the connection closed: the rest is not read."""
    response = await client.post(VIDEOS, files=as_form({"prompt": "x" * (1024 * 1024 + 1)}))
    assert "1048576" in read_error(response, 413, "body_too_large")["message"]
    assert "close" == response.headers["connection"]


async def test_large_json_takes_room_in_memory(world: World) -> None:
    """As long as it is read; more than one replica has is 503, past the limit is 413."""
    async with open_door(world.make_app(max_inline_bytes=4096, max_body_bytes=1024)) as client:
        read_error(await client.post(VIDEOS, json={"prompt": "x" * 5000}), 413, "body_too_large")
        read_error(await client.post(VIDEOS, json=PROMPT | {"video_reference": "x" * 2000}), 400, "invalid_request")
        door = client._transport.app.state.door  # type: ignore[attr-defined]
        assert 0 == door.memory.taken
        door.memory.take(4 * 4096 - 1000)
        read_error(await client.post(VIDEOS, json=PROMPT | {"negative_prompt": "x" * 2000}), 503, "service_unavailable")
        door.memory.taken = 0


async def test_wrong_methods_are_405_in_the_one_shape(client: httpx.AsyncClient) -> None:
    """And name those that there are."""
    for method in ("PUT", "PATCH"):
        read_error(await client.request(method, VIDEOS), 405, "method_not_allowed")
    response = await client.post(f"{VIDEOS}/word")
    read_error(response, 405, "method_not_allowed")
    assert "DELETE, GET" == response.headers["allow"]
