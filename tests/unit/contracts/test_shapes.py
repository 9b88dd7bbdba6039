"""Tokens, costs and buckets."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitascope.contracts.models import Defaults, ModelEntry
from vitascope.contracts.shapes import Bucket, CostModel, LatentGeometry, compute_duration_s, nearest_bucket


@pytest.mark.parametrize(
    ("tokens", "shape"),
    [
        pytest.param(75_600, (1280, 720, 81), id="720p, 81 frames"),
        pytest.param(32_760, (832, 480, 81), id="480p, 81 frames"),
        pytest.param(3_600, (1280, 720, 1), id="one frame"),
        pytest.param(80, (64, 64, 17), id="small"),
    ],
)
def test_tokens_with_the_factors_of_wan(tokens: int, shape: tuple[int, int, int]) -> None:
    """Latent frames times a sixteenth of the width times a sixteenth of the height."""
    assert tokens == LatentGeometry().compute_tokens(*shape)


@given(st.integers(1, 200), st.integers(1, 100_000), st.integers(0, 100_000))
def test_cost_rises_with_tokens(steps: int, tokens: int, more: int) -> None:
    """More tokens never cost less, and steps cost in proportion."""
    cost = CostModel()
    assert cost.compute_gpu_s(tokens, steps) <= cost.compute_gpu_s(tokens + more, steps)
    assert math.isclose(cost.compute_gpu_s(tokens, steps), steps * cost.compute_gpu_s(tokens, 1))


def test_a_group_pays_for_all_its_gpus() -> None:
    """Perfect sharing halves the time on two GPUs and leaves the GPU-seconds as they are."""
    cost = CostModel()
    assert math.isclose(cost.compute_step_s(75_600, 1), 2 * cost.compute_step_s(75_600, 2))
    assert math.isclose(cost.compute_gpu_s(75_600, 40, 1), cost.compute_gpu_s(75_600, 40, 2))


BUCKETS = (
    Bucket(name="small", width=64, height=64, num_frames=17),
    Bucket(name="wide", width=128, height=80, num_frames=17),
    Bucket(name="long", width=64, height=64, num_frames=33),
)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        pytest.param("small", (63, 64, 17), id="a pixel short"),
        pytest.param("long", (64, 64, 30), id="frames count"),
        pytest.param("wide", (4096, 2160, 17), id="far too large"),
        pytest.param("small", (0, 0, 0), id="nothing at all"),
    ],
)
def test_nearest_bucket(name: str, shape: tuple[int, int, int]) -> None:
    """The suggestion is the shape with the nearest ratios."""
    assert name == nearest_bucket(BUCKETS, *shape).name


def test_duration_is_exact() -> None:
    """NTSC rates do not drift."""
    assert Fraction(1001 * 48, 24000) == compute_duration_s(48, Fraction(24000, 1001))


def test_default_shape_must_be_offered() -> None:
    """A model whose default nobody could order is a mistake in the catalog."""
    with pytest.raises(ValueError, match="default shape"):
        ModelEntry(name="m", source="x", buckets=BUCKETS, defaults=Defaults(width=8, height=8, num_frames=1))
