"""A stage's pipeline is made as the whole family's would be: the library's traps, one by one."""

import diffusers
import torch

from unit.engine.tiny_families import MAKERS, SAMPLERS, ltx2, wan22_t2v, wan22_vace
from unit.engine.tiny_job import NO_CHECKER, Job
from vitascope.engine.guidance import guiders_of
from vitascope.engine.pipes import build_pipe, neighbours_of, without_weights


def test_guider_defaults_are_the_whole_familys() -> None:
    """Wan 2.2's denoise stage alone would guide with 4.0, its whole family guides with 5.0."""
    job = Job(wan22_t2v)
    alone = job.stages["denoise"].init_pipeline()

    assert alone.guider.guidance_scale == 4.0
    assert job.pipe(job.stages["denoise"]).guider.guidance_scale == 5.0
    assert {"guider", "guider_2"} == set(guiders_of(job.pipe(job.stages["denoise"])))


def test_pipeline_class_is_the_whole_familys() -> None:
    """VACE's decode stage alone would be plain Wan."""
    job = Job(wan22_vace)

    assert type(job.blocks.init_pipeline()) is type(job.pipe(job.stages["decode"]))


def test_settings_of_other_stages_are_there() -> None:
    """Cosmos3's decode stage reads a setting that its encode stage declares."""
    job = Job(MAKERS["cosmos3_sound"])
    alone = job.stages["decode"].init_pipeline()

    assert "enable_safety_checker" not in alone.config
    assert not job.pipe(job.stages["decode"]).config.enable_safety_checker


def test_geometry_of_neighbours_is_the_folders() -> None:
    """Without the VAE's shape, LTX-2's blocks take compression ratios of 32 and 8 for granted."""
    job = Job(ltx2)
    stage, parts = job.stages["denoise"], job.tiny.components
    lonely = build_pipe(job.blocks, stage, parts, configs=NO_CHECKER)

    assert (32, 8) == (lonely.vae_spatial_compression_ratio, job.pipe(stage).vae_spatial_compression_ratio)


def test_neighbours_have_no_weights_and_no_device() -> None:
    """They are shapes on the meta device, and the pipeline does not count them among its components."""
    job = Job(ltx2)
    stage = job.stages["denoise"]
    pipe = build_pipe(job.blocks, stage, job.tiny.components, neighbours=neighbours_of(job.tiny.components))

    assert "vae" not in pipe.components
    assert pipe.vae.device.type == "meta"
    assert pipe.device.type == "cpu"


def test_jobs_share_models_and_nothing_else() -> None:
    """Two pipelines of one model hold the same weights, and schedulers and guiders of their own."""
    job = Job(wan22_t2v)
    stage, parts = job.stages["denoise"], job.tiny.components
    one, other = (build_pipe(job.blocks, stage, parts) for _ in range(2))

    assert one.transformer is other.transformer is parts["transformer"]
    for name in ("scheduler", "guider", "guider_2"):
        assert getattr(one, name) is not getattr(other, name)
    assert one.scheduler is not parts["scheduler"]
    assert dict(one.scheduler.config) == dict(parts["scheduler"].config)


def test_scheduler_config_survives() -> None:
    """A job's scheduler is what the folder says, not the class's default."""
    euler = SAMPLERS["euler"]()
    job = Job(wan22_t2v, parts={"scheduler": euler})
    made = job.pipe(job.stages["denoise"]).scheduler

    assert isinstance(made, diffusers.FlowMatchEulerDiscreteScheduler)
    assert made.config.shift == 5.0


def test_shape_of_a_model_costs_nothing() -> None:
    """Every tensor of a model without weights is on the meta device."""
    shape = without_weights(Job(wan22_t2v).tiny.components["transformer"])

    assert {"meta"} == {tensor.device.type for tensor in shape.parameters()}
    assert torch.device("cpu") == torch.empty(0).device
