"""The loop: whose random numbers, which steps, and which checkpoints it takes."""

from collections.abc import Callable
from typing import Any

import diffusers
import pytest
import torch

from unit.engine.tiny_families import SAMPLERS, wan21_t2v, wan_animate2
from unit.engine.tiny_job import Job
from vitascope.engine.codec import Packer, dumps, loads
from vitascope.engine.errors import BlobFormatError, BlobVersionError
from vitascope.engine.loop import StepReport, Stop


def saved_at(job: Job, step: int) -> bytes:
    saved: list[bytes] = []

    def stop(report: StepReport) -> None:
        if report.step == step:
            saved.append(report.snapshot())
            raise Stop

    with pytest.raises(Stop):
        job.denoise(stop)
    return saved[0]


def latents(job: Job, resume: bytes | None = None) -> torch.Tensor:
    found: torch.Tensor = job.denoise(resume=resume).values["latents"]
    return found


def ancestral(**more: Any) -> Job:
    return Job(wan21_t2v, parts={"scheduler": SAMPLERS["ancestral"]()}, **more)


def test_stochastic_sampler_draws_from_the_job() -> None:
    """Wan's loop gives the sampler no generator; the engine does, so the process's own does not matter."""
    disturbed = ancestral().denoise(lambda _: torch.rand(5)).values["latents"]

    assert torch.equal(latents(ancestral()), disturbed)


def test_other_seed_gives_other_noise_at_every_step() -> None:
    """The generator that is handed to the sampler is the request's."""
    one, other = (torch.Generator().manual_seed(seed) for seed in (1, 2))
    start = torch.zeros(1, 16, 3, 2, 2)
    results = [latents(ancestral(more={"generator": generator, "latents": start})) for generator in (one, other)]

    assert not torch.equal(*results)


def test_sampler_without_generator_where_the_loop_gives_one() -> None:
    """Wan Animate 2 hands its generator to every sampler; UniPC takes none and runs all the same."""
    job = Job(wan_animate2, steps=2, parts={"scheduler": SAMPLERS["unipc"]()})

    assert len(job.denoise().values["segment_frames"]) == 3


@pytest.mark.parametrize(
    "guider",
    [
        lambda: diffusers.AdaptiveProjectedGuidance(guidance_scale=4.0, adaptive_projected_guidance_momentum=-0.5),
        lambda: diffusers.ClassifierFreeZeroStarGuidance(guidance_scale=4.0),
    ],
    ids=["momentum", "zero-star"],
)
def test_guider_with_memory_is_resumed(guider: Callable[[], Any]) -> None:
    """What a guider remembers between steps is in the checkpoint."""
    make = lambda: Job(wan21_t2v, parts={"guider": guider()})  # noqa: E731 - a fresh guider a run

    assert torch.equal(latents(make()), latents(make(), saved_at(make(), 3)))


@pytest.mark.parametrize("part", ["block", "tools"])
def test_checkpoint_needs_all_of_it(part: str) -> None:
    """Without the latents, or without the sampler's memory, a resumed run would end elsewhere: the test can fail."""
    make = lambda: Job(wan21_t2v)  # noqa: E731 - a fresh job a run
    blob = loads(saved_at(make(), 3), kind="checkpoint")
    blob.body[part] = {}
    packer = Packer()
    packer.tensors = blob.tensors

    assert not torch.equal(latents(make()), latents(make(), dumps(packer, blob.body, kind="checkpoint")))


def test_checkpoint_beyond_the_end_is_refused() -> None:
    """A checkpoint of a longer run has no place in a shorter one."""
    with pytest.raises(BlobVersionError, match="at step 5, this request has 4"):
        latents(Job(wan21_t2v, steps=4), saved_at(Job(wan21_t2v), 5))


@pytest.mark.parametrize(
    "body", [{}, [], None, {"step": 0}, {"step": True}, {"step": "3"}, {"step": 3}, {"step": 3, "block": 1}]
)
def test_forged_checkpoint_is_refused(body: Any) -> None:
    """What is no checkpoint is never taken for one."""
    with pytest.raises(BlobFormatError):
        latents(Job(wan21_t2v), dumps(Packer(), body, kind="checkpoint"))


def test_snapshot_outside_its_step_is_our_bug() -> None:
    """A snapshot taken later would be of another step."""
    reports: list[StepReport] = []
    Job(wan21_t2v, steps=2).denoise(reports.append)
    with pytest.raises(AssertionError, match="inside the callback"):
        reports[0].snapshot()


def test_snapshot_does_not_keep_the_tensors() -> None:
    """Bytes are copied at once: later steps do not change an earlier checkpoint."""
    saved: list[bytes] = []

    def on_step(report: StepReport) -> None:
        saved.append(report.snapshot())

    job = Job(wan21_t2v, steps=3)
    job.denoise(on_step)

    assert saved[0] == saved_at(Job(wan21_t2v, steps=3), 1)
    assert len(set(saved)) == 3
