"""The SDK of OpenAI, as it is, against the whole pipeline; and the route that waits, over real connections."""

import io
import re
import time
from collections.abc import Iterator
from pathlib import Path

import av
import httpx
import openai
import pytest
from PIL import Image

from pipeline import JOB_DEADLINE_S, POLL_S, PROMPT, Up

PAGE = (Path(__file__).parents[2] / "docs" / "videos.md").read_text(encoding="utf-8")
QUICK = {"num_inference_steps": 4, "seed": 7, "fps": 8}

# The SDK warns, at every call, that OpenAI's own service will no longer have videos.
pytestmark = pytest.mark.filterwarnings("ignore:The Sora API:DeprecationWarning")


@pytest.fixture
def client(up: Up) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{up.url}/v1", api_key="none", max_retries=0) as made:
        yield made


def test_a_video_from_create_to_delete(up: Up, client: openai.OpenAI) -> None:
    """Every step of a client that only knows the SDK; the other API shows the same job."""
    video = client.videos.create_and_poll(
        prompt=PROMPT, size="64x64", seconds="1", poll_interval_ms=100, extra_body=QUICK
    )
    assert ("completed", 100, "64x64", "1") == (video.status, video.progress, video.size, video.seconds)
    assert (PROMPT, None) == (video.prompt, video.error)
    assert "succeeded" == up.get(video.id)["status"]
    assert video == client.videos.retrieve(video.id)
    with av.open(io.BytesIO(client.videos.download_content(video.id).read())) as film:
        assert 9 == sum(1 for _ in film.decode(video=0))
    for variant, size in (("thumbnail", (64, 64)), ("spritesheet", (3 * 64, 3 * 64))):
        picture = client.videos.download_content(video.id, variant=variant).read()  # type: ignore[arg-type]
        assert ("JPEG", size) == ((image := Image.open(io.BytesIO(picture))).format, image.size)
    assert video.id in [one.id for one in client.videos.list(limit=1)]
    assert client.videos.delete(video.id).deleted
    with pytest.raises(openai.NotFoundError):
        client.videos.retrieve(video.id)
    assert video.id not in [one.id for one in client.videos.list(limit=1)]


def test_a_live_video_says_when_to_ask_again(client: openai.OpenAI) -> None:
    """And is gone at once when it is deleted."""
    answer = client.videos.with_raw_response.create(prompt=PROMPT, extra_body={"num_inference_steps": 200})
    video = answer.parse()
    assert video.status in {"queued", "in_progress"}
    assert 500 <= int(answer.headers["openai-poll-after-ms"]) <= 5000
    with pytest.raises(openai.NotFoundError) as caught:
        client.videos.download_content(video.id)
    assert "not_ready" == caught.value.code
    client.videos.delete(video.id)
    with pytest.raises(openai.NotFoundError):
        client.videos.retrieve(video.id)


def test_refusals_are_the_sdks_own_errors(client: openai.OpenAI) -> None:
    """With the code and the field; what the model cannot is 404, as if it were not there."""
    with pytest.raises(openai.BadRequestError) as wrong:
        client.videos.create(prompt=PROMPT, size="1280x720")
    assert ("shape_not_allowed", "size") == (wrong.value.code, wrong.value.param)
    with pytest.raises(openai.BadRequestError) as picture:
        client.videos.create(prompt=PROMPT, input_reference=("x.png", b"x", "image/png"))
    assert ("capability_missing", "input_reference") == (picture.value.code, picture.value.param)
    video = client.videos.create_and_poll(prompt=PROMPT, seconds="1", poll_interval_ms=100, extra_body=QUICK)
    film = ("v.mp4", b"x", "video/mp4")
    for call in (
        lambda: client.videos.remix(video.id, prompt="the same in blue"),
        lambda: client.videos.edit(prompt="p", video=film),
        lambda: client.videos.extend(prompt="p", video=film, seconds="4"),
        lambda: client.videos.create_character(name="n", video=film),
        lambda: client.videos.get_character("char_1"),
    ):
        with pytest.raises(openai.NotFoundError) as caught:
            call()
        assert "capability_missing" == caught.value.code


def test_the_example_of_the_page_runs(up: Up, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it stands there, but for the address."""
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(code.replace("http://127.0.0.1:8765", up.url), "docs/videos.md", "exec"), {})
    assert (tmp_path / "circle.mp4").stat().st_size > 1000
    with Image.open(tmp_path / "circle.jpg") as still:
        assert "JPEG" == still.format


def test_sync_answers_with_the_file(up: Up) -> None:
    """And leaves nothing listed."""
    fields = {"prompt": PROMPT, "num_frames": "5", **{name: str(value) for name, value in QUICK.items()}}
    response = httpx.post(f"{up.url}/v1/videos/sync", data=fields, timeout=JOB_DEADLINE_S)
    assert 200 == response.status_code, response.text
    with av.open(io.BytesIO(response.content)) as film:
        assert 5 == sum(1 for _ in film.decode(video=0))
    listed = httpx.get(f"{up.url}/v1/videos").json()["data"]
    assert response.headers["x-video-id"] not in [view["id"] for view in listed]


def test_who_hangs_up_frees_the_group(up: Up) -> None:
    """Over a real connection: the job is gone, and the next one does not wait for its steps."""
    long = {"prompt": PROMPT, "num_frames": "33", "size": "96x96", "num_inference_steps": "200"}
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{up.url}/v1/videos/sync", data=long, timeout=1.5)
    deadline = time.monotonic() + JOB_DEADLINE_S
    while (live := list_live(up)) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    assert [] == live
    assert "succeeded" == up.wait(up.submit()["id"])["status"]


def list_live(up: Up) -> list[str]:
    """Videos that are being made, or wait."""
    listed = httpx.get(f"{up.url}/v1/videos").json()["data"]
    return [view["id"] for view in listed if view["status"] in {"queued", "in_progress"}]
