"""A request through everything: the file is what was asked for, and shows what the prompt says."""

import hashlib
from fractions import Fraction
from pathlib import Path
from typing import Any

import httpx
import pytest

import judge
from pipeline import PROMPT, Up
from vitascope.encode.options import EncodeOptions
from vitascope.encode.verify import verify_mp4

# One prompt for each colour, with every backdrop and every motion that the model's card calls reliable.
PROMPTS = [
    "a red circle moving right on a white background",
    "a green square moving up on a black background",
    "a blue circle standing still on a brown background",
    "a yellow star moving left on a black background",
    "an orange triangle growing on a white background",
    "a purple circle moving down on a gray background",
    "a cyan square shrinking on a night background",
    "a pink cross moving right on a black background",
    "a red square moving left on a sky background",
    "a blue triangle moving up on a white background",
]


@pytest.fixture(scope="module")
def clips(up: Up, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The ten prompts through the whole pipeline, queued at once."""
    folder = tmp_path_factory.mktemp("clips")
    jobs = {prompt: up.submit(prompt=prompt, frames=17, steps=24, guidance=4, seed=3)["id"] for prompt in PROMPTS}
    files = {}
    for prompt, job in jobs.items():
        done = up.wait(job)
        assert done["status"] == "succeeded", done
        files[prompt] = folder / f"{job}.mp4"
        files[prompt].write_bytes(up.content(job))
    return files


def count_right(clips: dict[str, Path], *what: str) -> int:
    verdicts = [judge.judge(str(path), prompt) for prompt, path in clips.items()]
    return sum(all(verdict[name] for name in what) for verdict in verdicts)


def test_clips_show_colour_and_background(clips: dict[str, Path]) -> None:
    """The judge confirms both on at least nine of ten prompts."""
    assert count_right(clips, "colour", "background") >= 9


def test_clips_show_motion(clips: dict[str, Path]) -> None:
    """Moving, growing, shrinking and standing still, as often as the model's card says: nearly always."""
    assert count_right(clips, "motion") >= 8


def test_clips_show_the_shape(clips: dict[str, Path]) -> None:
    """As often as the model's card says: nine of ten prompts, and less of crosses."""
    assert count_right(clips, "shape") >= 7


@pytest.fixture(scope="module")
def finished(up: Up) -> dict[str, Any]:
    """A job with a fractional rate and a shape of its own, at its end."""
    job = up.submit(size="96x64", frames=9, fps="24000/1001", steps=6, seed=-5)
    return up.wait(job["id"])


def test_file_is_what_the_record_says(up: Up, finished: dict[str, Any], tmp_path: Path) -> None:
    """Size, count, exact rate, digest, colour tags, index first: decoded and compared."""
    path = tmp_path / "out.mp4"
    path.write_bytes(up.content(finished["id"]))
    options = EncodeOptions(width=96, height=64, num_frames=9, fps=Fraction(24000, 1001))
    verified = verify_mp4(path, options)
    assert finished["result"]["sha256"] == verified.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert ("24000/1001", 9, 96, 64) == tuple(finished[n] for n in ("fps", "num_frames", "width", "height"))


def test_record_is_complete(finished: dict[str, Any]) -> None:
    """Everything that is needed to make the same video again, and how long each stage took."""
    assert (-5, PROMPT, 6) == (finished["seed"], finished["prompt"], finished["num_inference_steps"])
    assert {"denoise", "decode", "encode"} == set(finished["result"]["stage_seconds"])
    assert {"torch", "diffusers", "transformers"} <= set(finished["result"]["engine"]["versions"])


def test_signed_url_needs_no_key(finished: dict[str, Any]) -> None:
    """Anybody who has the URL gets the file, straight from the object store."""
    response = httpx.get(finished["result"]["video_url"])
    assert 200 == response.status_code
    assert finished["result"]["sha256"] == hashlib.sha256(response.content).hexdigest()


def test_thumbnail_is_a_picture(finished: dict[str, Any]) -> None:
    """A JPEG beside the video."""
    assert httpx.get(finished["result"]["thumbnail_url"]).content.startswith(b"\xff\xd8\xff")


def test_same_seed_gives_the_same_file(up: Up, finished: dict[str, Any]) -> None:
    """Byte for byte, through another pass of every stage; another seed gives another."""
    again, other = (up.submit(size="96x64", frames=9, fps="24000/1001", steps=6, seed=seed) for seed in (-5, 6))
    assert finished["result"]["sha256"] == up.wait(again["id"])["result"]["sha256"]
    assert finished["result"]["sha256"] != up.wait(other["id"])["result"]["sha256"]


def test_nothing_of_the_way_stays_behind(up: Up, finished: dict[str, Any]) -> None:
    """Latents, pixel chunks and checkpoints are gone; the copy of the record and the file stay."""
    assert finished["status"] == "succeeded"
    assert {"records", "outputs"} == up.object_classes(finished["id"])
