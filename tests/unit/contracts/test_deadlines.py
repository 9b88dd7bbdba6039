"""How long each stage of a job may take and be silent, from its record."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from records import queued_record
from vitascope.contracts.deadlines import (
    FIRST_FLOOR_S,
    LIMIT_FACTOR,
    LIMIT_FLOOR_S,
    STALL_FLOOR_S,
    STALL_STEPS,
    UNREAD,
    StageLimits,
    compute_limits,
    compute_stall_s,
)
from vitascope.contracts.flow import Stage
from vitascope.contracts.jobs import JobRecord

DEMO: dict[str, Any] = {"width": 64, "height": 64, "num_frames": 17, "num_inference_steps": 20}
HD: dict[str, Any] = {"width": 1280, "height": 720, "num_frames": 81, "num_inference_steps": 50}
UHD: dict[str, Any] = {"width": 3840, "height": 2160, "num_frames": 241, "num_inference_steps": 50}


def record_of(shape: dict[str, Any], gpu_s: float, group_size: int) -> JobRecord:
    record = queued_record(**shape)
    admission = record.admission.model_copy(update={"estimated_gpu_s": gpu_s, "group_size": group_size})
    return record.model_copy(update={"admission": admission})


@pytest.mark.parametrize(
    ("stage", "shape", "gpu_s", "group_size", "limits"),
    [
        # The demo's clip: floors alone.
        pytest.param(Stage.DENOISE, DEMO, 2.0, 1, (0.1, 600, 1820), id="denoise 64x64x17"),
        pytest.param(Stage.DECODE, DEMO, 2.0, 1, (0.069632, 600, 1800.69632), id="decode 64x64x17"),
        pytest.param(Stage.ENCODE, DEMO, 2.0, 1, (0.034816, 600, 1800.34816), id="encode 64x64x17"),
        # 720p for 5 s: 34 s a step on one GPU, 1,700 in all; eight GPUs share it.
        pytest.param(Stage.DENOISE, HD, 1700.0, 1, (34, 600, 18800), id="denoise 720p"),
        pytest.param(Stage.DENOISE, HD, 1700.0, 8, (4.25, 600, 3925), id="denoise 720p on 8"),
        pytest.param(Stage.DECODE, HD, 1700.0, 1, (74.6496, 746.496, 2546.496), id="decode 720p"),
        pytest.param(Stage.ENCODE, HD, 1700.0, 1, (37.3248, 600, 2173.248), id="encode 720p"),
        # 2160p for 10 s: a step of 100 s and more; a clip that may come in one piece after half an hour.
        pytest.param(Stage.DENOISE, UHD, 5000.0, 1, (100, 1000, 51800), id="denoise 2160p"),
        pytest.param(Stage.DECODE, UHD, 5000.0, 1, (1998.9504, 19989.504, 21789.504), id="decode 2160p"),
        pytest.param(Stage.ENCODE, UHD, 5000.0, 1, (999.4752, 9994.752, 11794.752), id="encode 2160p"),
    ],
)
def test_limits_of_a_bucket(
    stage: Stage, shape: dict[str, Any], gpu_s: float, group_size: int, limits: tuple[float, float, float]
) -> None:
    """Expected of one act; silence before the pace is known; the whole run: factor and floor are in each figure."""
    computed = compute_limits(record_of(shape, gpu_s, group_size), stage)
    assert limits == pytest.approx((computed.step_s, computed.first_s, computed.limit_s))


@pytest.mark.parametrize(
    ("steps_s", "stall_s"),
    [
        pytest.param([], 700.0, id="no pace yet"),
        pytest.param([2.0], STALL_FLOOR_S, id="floor"),
        pytest.param([30.0], 300.0, id="first step of a slow machine"),
        pytest.param([30.0, 30.0, 500.0, 31.0, 30.0], 300.0, id="outlier"),
        pytest.param([500.0] * 5 + [30.0] * 5, 300.0, id="newest count"),
    ],
)
def test_silence_follows_the_measured_pace(steps_s: list[float], stall_s: float) -> None:
    """As soon as a step was measured it replaces the expectation, whichever is longer."""
    assert stall_s == compute_stall_s(StageLimits(step_s=70.0, first_s=700.0, limit_s=1e4), steps_s)


@given(
    gpu_s=st.floats(0, 1e6),
    group_size=st.integers(1, 64),
    stage=st.sampled_from(Stage),
    steps_s=st.lists(st.floats(0, 1e5), max_size=9),
)
def test_nothing_as_expected_is_ever_ended(gpu_s: float, group_size: int, stage: Stage, steps_s: list[float]) -> None:
    """Whatever the figures: floors hold, and a run that is up to the factor slower than expected stays inside."""
    limits = compute_limits(record_of(HD, gpu_s, group_size), stage)
    assert limits.first_s >= max(FIRST_FLOOR_S, STALL_STEPS * limits.step_s)
    assert limits.limit_s >= max(LIMIT_FLOOR_S, LIMIT_FACTOR * limits.step_s)
    assert compute_stall_s(limits, steps_s) >= STALL_FLOOR_S
    assert limits.limit_s >= limits.first_s


def test_unread_record_gets_the_floors() -> None:
    """Before the record has been read nothing is expected."""
    assert UNREAD == StageLimits(step_s=0.0, first_s=FIRST_FLOOR_S, limit_s=LIMIT_FLOOR_S)
