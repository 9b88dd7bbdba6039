"""Videos of videos: remix, edits, extensions; and refusals where the model cannot."""

from typing import Any

import httpx
import pytest

from doors import World, open_door, read_error, submit
from unit.ingress.videos.conftest import VIDEOS, make_able, make_mp4
from vitascope.contracts.models import Task

NOBODY = "vj_01KDVDNA00W52FRFC30J36F36P"
FILM = make_mp4(17)


async def make_video(world: World, client: httpx.AsyncClient, **body: Any) -> str:
    job: str = (await submit(client, **body))["id"]
    await world.finish(job, FILM)
    return job


async def test_a_remix_starts_from_the_finished_clip(world: World, able: httpx.AsyncClient) -> None:
    """A new job with the new prompt, the old shape and numbers, and a seed of its own."""
    job = await make_video(world, able, steps=9, seed=7, negative_prompt="blur", frames=9)
    response = await able.post(f"{VIDEOS}/{job}/remix", json={"prompt": "the same in blue"})
    assert 200 == response.status_code, response.text
    view = response.json()
    assert (job, "queued", 9, "the same in blue") == tuple(
        view[name] for name in ("remixed_from_video_id", "status", "num_frames", "prompt")
    )
    request = (await world.load(view["id"])).record.request
    assert ("v2v", 9, "blur") == (request.task, request.num_inference_steps, request.negative_prompt)
    assert 7 != request.seed
    (reference,) = request.references
    assert ("video", 17, 64) == (reference.role, reference.num_frames, reference.width)
    assert view["id"] in reference.object.key


async def test_what_a_remix_says_goes_before_what_was(world: World, able: httpx.AsyncClient) -> None:
    """In whatever spelling."""
    job = await make_video(world, able)
    body = {"prompt": "p", "steps": 5, "width": 96, "height": 64, "seconds": "1"}
    view = (await able.post(f"{VIDEOS}/{job}/remix", json=body)).json()
    assert ("96x64", 9) == (view["size"], view["num_frames"])
    assert 5 == (await world.load(view["id"])).record.request.num_inference_steps


async def test_a_key_makes_one_remix(world: World, able: httpx.AsyncClient) -> None:
    """Of one video: the same key for another is 409."""
    one, two = await make_video(world, able), await make_video(world, able)
    answers = [
        await able.post(f"{VIDEOS}/{job}/remix", json={"prompt": "p"}, headers={"Idempotency-Key": "k"})
        for job in (one, one, two)
    ]
    assert answers[0].json()["id"] == answers[1].json()["id"]
    read_error(answers[2], 409, "idempotency_conflict")


async def test_an_edit_starts_from_an_upload_or_a_finished_video(world: World, able: httpx.AsyncClient) -> None:
    """As OpenAI's clients send either."""
    job = await make_video(world, able)
    for sent in (
        {"data": {"prompt": "p"}, "files": {"video": ("v.mp4", FILM)}},
        {"json": {"prompt": "p", "video": {"id": job}}},
        {"files": {"prompt": (None, "p"), "video[id]": (None, job)}},
    ):
        response = await able.post(f"{VIDEOS}/edits", **sent)
        assert 200 == response.status_code, response.text
        request = (await world.load(response.json()["id"])).record.request
        assert ("v2v", "video") == (request.task, request.references[0].role)
        assert (job if "data" not in sent else None) == request.source_job


async def test_extensions_need_a_model_that_can(world: World, able: httpx.AsyncClient) -> None:
    """Else they are refused by name, as if the route were not there."""
    files = {"video": ("v.mp4", FILM)}
    error = read_error(
        await able.post(f"{VIDEOS}/extensions", data={"prompt": "p"}, files=files), 404, "capability_missing"
    )
    assert "extensions" in error["message"]
    catalog = make_able(world, Task.V2V, max_videos=1, can_extend=True)
    async with open_door(world.make_app(catalog=catalog)) as client:
        response = await client.post(f"{VIDEOS}/extensions", data={"prompt": "p"}, files=files)
        assert 200 == response.status_code, response.text


async def test_a_model_that_cannot_refuses(world: World, client: httpx.AsyncClient) -> None:
    """In our error shape, and nothing is made."""
    job = await make_video(world, client)
    answers = [
        await client.post(f"{VIDEOS}/{job}/remix", json={"prompt": "p"}),
        await client.post(f"{VIDEOS}/edits", data={"prompt": "p"}, files={"video": ("v.mp4", FILM)}),
        await client.post(f"{VIDEOS}/extensions", json={"prompt": "p", "video": {"id": job}}),
        await client.post(f"{VIDEOS}/characters", data={"name": "n"}, files={"video": ("v.mp4", FILM)}),
        await client.get(f"{VIDEOS}/characters/char_1"),
    ]
    for answer in answers:
        read_error(answer, 404, "capability_missing")
    assert 1 == await world.count_jobs()


@pytest.mark.parametrize(
    ("address", "sent", "status", "code"),
    [
        pytest.param(f"/{NOBODY}/remix", {"json": {"prompt": "p"}}, 404, "not_found", id="no such video"),
        pytest.param(
            "/edits", {"json": {"prompt": "p", "video": {"id": NOBODY}}}, 404, "not_found", id="no such source"
        ),
        pytest.param("/edits", {"json": {"prompt": "p"}}, 400, "invalid_request", id="no source"),
        pytest.param(
            "/edits", {"json": {"prompt": "p", "video": {"url": "u"}}}, 400, "invalid_request", id="wrong source"
        ),
        pytest.param(
            "/edits", {"files": {"prompt": (None, "p"), "video": ("v.mp4", b"x")}}, 400, "media_invalid", id="no video"
        ),
    ],
)
async def test_what_cannot_be_is_refused(
    able: httpx.AsyncClient, address: str, sent: dict[str, Any], status: int, code: str
) -> None:
    """With what is wrong."""
    read_error(await able.post(f"{VIDEOS}{address}", **sent), status, code)


async def test_a_remix_needs_a_prompt_and_a_finished_video(world: World, able: httpx.AsyncClient) -> None:
    """The old prompt is not taken again."""
    done, waiting = await make_video(world, able), (await submit(able))["id"]
    assert "prompt" == read_error(await able.post(f"{VIDEOS}/{done}/remix", json={}), 400, "invalid_request")["param"]
    read_error(await able.post(f"{VIDEOS}/{waiting}/remix", json={"prompt": "p"}), 409, "not_ready")
