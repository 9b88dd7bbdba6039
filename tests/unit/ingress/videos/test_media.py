"""Media through the door: files, data URLs and objects become references of the job, or are refused by name."""

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from doors import JOBS, World, open_door, read_error
from unit.ingress.videos.conftest import VIDEOS, make_mp4, make_png
from vitascope.catalog import Catalog
from vitascope.contracts import transitions
from vitascope.contracts.failures import Failure, FailureCode

PROMPT = {"prompt": "a red circle"}
DATA_URL = "data:image/png;base64," + base64.b64encode(make_png()).decode()
PLACES = [
    pytest.param(
        {"files": {"input_reference": ("../x.txt", make_png(), "text/plain")}}, id="file whatever its name says"
    ),
    pytest.param({"files": {"image_reference": ("x.png", make_png())}}, id="file for an object"),
    pytest.param({"files": {"input_references": ("x.png", make_png())}}, id="repeatable file"),
    pytest.param({"files": {"input_references[]": ("x.png", make_png())}}, id="repeatable file in brackets"),
    pytest.param({"data": {"input_reference": DATA_URL}}, id="data url"),
    pytest.param({"data": {"image_reference": json.dumps({"image_url": DATA_URL})}}, id="object in a form"),
    pytest.param({"data": {"image_reference": json.dumps([{"image_url": DATA_URL}])}}, id="list in a form"),
    pytest.param({"data": {"input_reference[image_url]": DATA_URL}}, id="part of an object"),
    pytest.param({"json": {"input_reference": {"image_url": DATA_URL}}}, id="object in json"),
    pytest.param({"json": {"image_reference": [{"image_url": DATA_URL}]}}, id="list in json"),
    pytest.param({"json": {"image_reference": DATA_URL}}, id="bare in json"),
]


def with_prompt(sent: dict[str, Any]) -> dict[str, Any]:
    field = "json" if "json" in sent else "data"
    return {**sent, field: PROMPT | sent.get(field, {})}


@pytest.mark.parametrize("sent", PLACES)
async def test_an_image_becomes_a_reference(world: World, able: httpx.AsyncClient, sent: dict[str, Any]) -> None:
    """Stored under the job, with its size; the job is one that starts from an image."""
    response = await able.post(VIDEOS, **with_prompt(sent))
    assert 200 == response.status_code, response.text
    record = (await world.load(response.json()["id"])).record
    (reference,) = record.request.references
    assert ("i2v", "image", 8, 6) == (record.request.task, reference.role, reference.width, reference.height)
    assert reference.object.key.startswith(f"inputs/default/{record.id}/")
    assert reference.object.key in world.store.objects


async def test_the_other_api_takes_places_too(world: World, able: httpx.AsyncClient) -> None:
    """As objects or addresses in its JSON."""
    response = await able.post(JOBS, json=PROMPT | {"image_reference": {"image_url": DATA_URL}})
    assert 202 == response.status_code, response.text
    assert 1 == len((await world.load(response.json()["id"])).record.request.references)


REFUSED = [
    pytest.param(
        {"data": {"image_reference": '{"image_url": "ftp://x/"}'}}, "invalid_request", "image_reference", id="ftp"
    ),
    pytest.param(
        {"data": {"image_reference": '{"image_url": "file:///etc/passwd"}'}},
        "invalid_request",
        "image_reference",
        id="file",
    ),
    pytest.param(
        {"data": {"image_reference": '{"image_url": "/etc/passwd"}'}}, "invalid_request", "image_reference", id="path"
    ),
    pytest.param({"data": {"image_reference": '{"image_url": ""}'}}, "invalid_request", "image_reference", id="empty"),
    pytest.param({"data": {"image_reference": '{"file_id": "f"}'}}, "invalid_request", "image_reference", id="file id"),
    pytest.param({"data": {"image_reference": "{}"}}, "invalid_request", "image_reference", id="no key"),
    pytest.param(
        {"data": {"image_reference": '{"image_url": "u", "x": 1}'}},
        "invalid_request",
        "image_reference",
        id="more keys",
    ),
    pytest.param(
        {"data": {"image_reference": '{"image_url": 7}'}}, "invalid_request", "image_reference", id="no string"
    ),
    pytest.param({"data": {"image_reference": "[]"}}, "invalid_request", "image_reference", id="no objects"),
    pytest.param(
        {"data": {"image_reference": "data:text/plain;base64,eA=="}},
        "invalid_request",
        "image_reference",
        id="text url",
    ),
    pytest.param(
        {"data": {"image_reference": "http://127.0.0.1:1/x.png"}},
        "address_not_allowed",
        "image_reference",
        id="loopback",
    ),
    pytest.param(
        {"data": {"image_reference": "http://169.254.169.254/latest"}},
        "address_not_allowed",
        "image_reference",
        id="metadata",
    ),
    pytest.param(
        {"files": {"input_reference": ("x.png", b"no picture")}}, "media_invalid", "input_reference", id="no picture"
    ),
    pytest.param({"files": {"input_reference": ("x.png", b"")}}, "media_invalid", "input_reference", id="empty file"),
    pytest.param(
        {"files": {"input_reference": ("x.png", make_png()), "image_reference": (None, '{"image_url": "http://x/"}')}},
        "invalid_request",
        "input_reference",
        id="two kinds",
    ),
    pytest.param(
        {"files": [("input_reference", ("x.png", make_png())), ("input_reference", ("y.png", make_png()))]},
        "invalid_request",
        "input_reference",
        id="two files",
    ),
    pytest.param(
        {"files": [("image_reference", (f"{n}.png", make_png())) for n in range(3)]},
        "invalid_request",
        "image_reference",
        id="three images of two",
    ),
    pytest.param({"files": {"control_reference": ("x.avi", b"x")}}, "media_invalid", "control_reference", id="avi"),
    pytest.param({"files": {"source_audio": ("x.txt", b"x")}}, "media_invalid", "source_audio", id="txt"),
    pytest.param(
        {"files": {"video_noise_mask": ("m.json", b"null")}}, "invalid_request", "video_noise_mask", id="null mask"
    ),
    pytest.param(
        {"files": {"video_noise_mask": ("m.json", b"0.5")}}, "capability_missing", "video_noise_mask", id="mask"
    ),
    pytest.param({"data": {"video_noise_mask": "0.5"}}, "invalid_request", "video_noise_mask", id="mask as text"),
    pytest.param({"files": {"unheard_of": ("x", b"x")}}, "unknown_field", "unheard_of", id="unknown file"),
]


@pytest.mark.parametrize(("sent", "code", "param"), REFUSED)
async def test_what_cannot_be_is_refused_by_name(
    world: World, able: httpx.AsyncClient, sent: dict[str, Any], code: str, param: str
) -> None:
    """400, and nothing is left: no job, no object, no file."""
    response = await able.post(VIDEOS, **with_prompt(sent))
    assert param == read_error(response, 400, code)["param"]
    assert 0 == await world.count_jobs()
    assert {} == world.store.objects


async def test_a_wrong_field_is_found_before_media_is_fetched(able: httpx.AsyncClient) -> None:
    """The address would have been refused, too."""
    fields = PROMPT | {"image_reference": "http://127.0.0.1:1/x.png", "num_inference_steps": "999"}
    assert "num_inference_steps" == read_error(await able.post(VIDEOS, data=fields), 400, "invalid_request")["param"]


async def test_a_key_stands_for_the_files_too(world: World, able: httpx.AsyncClient) -> None:
    """The same again is the same job, another picture is 409; a picture that was refused left the key free."""
    headers = {"Idempotency-Key": "k1"}

    async def send(picture: bytes) -> httpx.Response:
        return await able.post(VIDEOS, data=PROMPT, files={"input_reference": ("x.png", picture)}, headers=headers)

    read_error(await send(b"no picture"), 400, "media_invalid")
    first, again = await send(make_png()), await send(make_png())
    assert first.json()["id"] == again.json()["id"]
    read_error(await send(make_png(16, 16)), 409, "idempotency_conflict")
    assert 1 == await world.count_jobs()
    assert 1 == len([key for key in world.store.objects if key.startswith("inputs/")])


async def test_masks_are_checked_and_stored(world: World, edit: Catalog) -> None:
    """A mask that keeps something needs its source; one of ones keeps nothing, and is left out."""
    async with open_door(world.make_app(catalog=edit)) as client:
        alone = await client.post(VIDEOS, data=PROMPT, files={"video_noise_mask": ("m.json", b"0.5")})
        assert "source_video" == read_error(alone, 400, "invalid_request")["param"]
        bad = await client.post(VIDEOS, data=PROMPT, files={"video_noise_mask": ("m.json", b"[0.5, 2]")})
        assert "video_noise_mask" == read_error(bad, 400, "invalid_request")["param"]
        files = {"video_noise_mask": ("m.json", b"0.5"), "source_video": ("s.mp4", make_mp4())}
        kept = await client.post(VIDEOS, data=PROMPT, files=files)
        assert 200 == kept.status_code, kept.text
        references = (await world.load(kept.json()["id"])).record.request.references
        assert {"video_mask", "source_video"} == {reference.role for reference in references}
        plain = await client.post(VIDEOS, data=PROMPT, files={"video_noise_mask": ("m.json", b"1")})
        assert () == (await world.load(plain.json()["id"])).record.request.references


async def test_uploads_are_gone_after_the_answer(world: World, i2v: Catalog, tmp_path: Path) -> None:
    """Accepted or refused."""
    app = world.make_app(catalog=i2v)
    reader = app.state.door.deps.references
    reader.folder = tmp_path
    async with open_door(app) as client:
        for picture in (make_png(), b"no picture"):
            await client.post(VIDEOS, data=PROMPT, files={"input_reference": ("x.png", picture)})
            assert [] == await asyncio.to_thread(lambda: list(tmp_path.iterdir()))
        assert 0 == app.state.door.disk.taken


async def test_a_retry_has_media_of_its_own(world: World, able: httpx.AsyncClient) -> None:
    """The failed job's goes when that expires; without it, a retry that needs it is refused."""
    for is_there in (True, False):
        sent = {"data": PROMPT, "files": {"input_reference": ("x.png", make_png())}}
        job = (await able.post(VIDEOS, **sent)).json()["id"]  # type: ignore[arg-type]  # as httpx takes it
        failed = (await world.start(job)).record
        failure = Failure.of(FailureCode.DENOISE_FAILED)
        await world.change(job, transitions.fail(failed, 1, failure, world.time.now()))
        old = failed.request.references[0].object.key
        if not is_there:
            await world.store.remove([old])
        response = await able.post(f"{JOBS}/{job}/retry")
        if is_there:
            new = (await world.load(response.json()["id"])).record.request.references[0].object.key
            assert new == old.replace(job, response.json()["id"])
            assert world.store.objects[old] == world.store.objects[new]
        else:
            read_error(response, 409, "not_retryable")
