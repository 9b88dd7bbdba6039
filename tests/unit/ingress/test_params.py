"""`GET /v1/video-jobs/{job}/params`: what it says makes the same request again."""

from fractions import Fraction
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from doors import JOBS, PROMPT, World, read_error, submit
from records import NOW, object_ref, video_request
from vitascope.admission import admit
from vitascope.contracts.jobs import FrameInterpolation, Lora, Reference, ReferenceRole, VideoRequest
from vitascope.contracts.models import Capabilities, Extra, ModelEntry
from vitascope.ingress.request_views import compute_body, present_reference

SPENT_IN_ADMISSION = {"tenant", "tier", "labels", "references", "task", "source_job"}


@pytest.fixture
def able(world: World) -> ModelEntry:
    """The demo model, as if it could do everything."""
    return make_able(world)


def make_able(world: World) -> ModelEntry:
    """A model that takes every field."""
    can = Capabilities(
        max_images=2,
        max_videos=1,
        has_lora=True,
        lora_sources=("s3://loras/",),
        has_interpolation=True,
        has_flow_shift=True,
        has_boundary_ratio=True,
        has_true_cfg=True,
        extra_params={"strength": Extra(type="number", minimum=0, maximum=1), "sound_duration": Extra(type="number")},
    )
    wished = {"capabilities": can, "has_sound": True, "has_second_guidance": True}
    return world.catalog.default.model_copy(update=wished)


def _readmit(request: VideoRequest, entry: ModelEntry) -> VideoRequest:
    return admit(compute_body(request), entry, tenant="default", now=NOW, drawn_seed=1).request


def test_everything_comes_back(able: ModelEntry) -> None:
    """Admitted again, the body is the very request."""
    request = video_request(
        negative_prompt="blur",
        fps=Fraction(24000, 1001),
        guidance_scale_2=2.0,
        true_cfg_scale=3.0,
        flow_shift=4.0,
        boundary_ratio=0.5,
        generate_sound=True,
        sound_duration_s=1.5,
        lora=Lora(name="ink", path="s3://loras/ink", scale=0.5, int_id=3),
        interpolation=FrameInterpolation(exp=2, scale=0.5),
        video_codec_options={"crf": "20", "preset": "slow"},
        extra_params={"strength": 0.25},
    )
    assert request == _readmit(request, able)


def test_nothing_that_a_request_has_is_left_out() -> None:
    """A new field of requests is in the body, or is one of those that do not show in a video."""
    spelt = {"sound_duration_s": "sound_duration", "interpolation": "enable_frame_interpolation"}
    request = video_request(
        generate_sound=True,
        control_type="edge",
        lora=Lora(name="a", path="b"),
        interpolation=FrameInterpolation(),
        video_codec_options={"crf": "20"},
        extra_params={"a": 1},
        **dict.fromkeys(
            ("guidance_scale_2", "true_cfg_scale", "flow_shift", "boundary_ratio", "sound_duration_s"), 1.0
        ),
    )
    shown = set(compute_body(request))
    for name in set(VideoRequest.model_fields) - SPENT_IN_ADMISSION:
        assert spelt.get(name, name) in shown, name


@given(
    fps=st.sampled_from([Fraction(8), Fraction(30000, 1001), Fraction(25, 2)]),
    steps=st.integers(1, 200),
    seed=st.integers(-(2**63), 2**63 - 1),
    prompt=st.text(st.characters(categories=("L", "N", "P", "Zs")), min_size=1, max_size=60).filter(str.strip),
)
def test_numbers_and_words_come_back(fps: Fraction, steps: int, seed: int, prompt: str) -> None:
    """Whatever they are."""
    request = video_request(fps=fps, num_inference_steps=steps, seed=seed, prompt=prompt)
    assert request == _readmit(request, World().catalog.default)


async def test_sent_again_it_is_the_same_request(world: World, client: httpx.AsyncClient) -> None:
    """All defaults are written out, and the drawn seed is among them; the engine is known once it has denoised."""
    job = (await submit(client, labels={"project": "a"}, tier="batch"))["id"]
    before = (await client.get(f"{JOBS}/{job}/params")).json()
    assert ("video.job.params", job, None, []) == tuple(before[n] for n in ("object", "id", "engine", "references"))
    again = (await client.post(JOBS, json=before["request"])).json()
    shown = ("model", "prompt", "seed", "width", "height", "num_frames", "fps", "num_inference_steps", "guidance_scale")
    original = (await client.get(f"{JOBS}/{job}")).json()
    assert {name: original[name] for name in shown} == {name: again[name] for name in shown}
    await world.finish(job)
    engine = (await client.get(f"{JOBS}/{job}/params")).json()["engine"]
    assert ("f" * 64, "UniPC") == (engine["fingerprint"], engine["sampler"])


async def test_somebody_elses_job_has_none(client: httpx.AsyncClient) -> None:
    """404, as everywhere."""
    read_error(await client.get(f"{JOBS}/vj_01KDVDNA00W52FRFC30J36F36P/params"), 404, "not_found")


def test_a_reference_is_told_by_its_digest() -> None:
    """Its key stays inside."""
    stored = object_ref("inputs/default/x/00.png")
    reference = Reference(role=ReferenceRole.IMAGE, object=stored, media_type="image/png")
    view: dict[str, Any] = present_reference(reference).model_dump(mode="json")
    assert ("image", "image/png", 3, "a" * 64) == tuple(view[n] for n in ("role", "media_type", "bytes", "sha256"))
    assert "inputs/" not in str(view)


async def test_a_job_shows_every_effective_value(client: httpx.AsyncClient) -> None:
    """Under the names that requests use."""
    view = await submit(client, video_codec_options={"crf": 20})
    for name, value in (await client.get(f"{JOBS}/{view['id']}/params")).json()["request"].items():
        assert value == view[name], name
    assert PROMPT["prompt"] == view["prompt"]
