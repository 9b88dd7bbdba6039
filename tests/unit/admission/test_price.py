"""Price: GPU-seconds from the cost model, rounded up and never by an artefact of binary numbers."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitascope.admission import Admitted
from vitascope.admission.price import compute_gpu_s, compute_price_units
from vitascope.catalog.demo import make_demo_entry
from vitascope.contracts.shapes import CostModel

Admit = Callable[..., Admitted]


@pytest.mark.parametrize(
    ("gpu_s", "units"),
    [
        pytest.param(1.1, 1.1, id="exact"),
        pytest.param(1.101, 1.11, id="up"),
        pytest.param(0.0, 0.01, id="least"),
        pytest.param(86400.001, 86400.01, id="large"),
    ],
)
def test_price_is_rounded_up_to_a_hundredth(gpu_s: float, units: float) -> None:
    """And what is exact stays so."""
    assert units == compute_price_units(gpu_s)


@given(st.floats(0, 1e6))
def test_a_price_is_never_below_the_estimate(gpu_s: float) -> None:
    """And at most a hundredth above it."""
    assert gpu_s <= compute_price_units(gpu_s) <= gpu_s + 0.0100001


def test_twice_the_steps_cost_twice(admit_body: Admit) -> None:
    """The record keeps estimate and price."""
    one, two = admit_body(steps=10).admission, admit_body(steps=20).admission
    assert (0.66, 1.32) == pytest.approx((one.estimated_gpu_s, two.estimated_gpu_s), abs=0.002)
    assert (0.66, 1.32) == pytest.approx((one.price_units, two.price_units), abs=0.011)


def test_every_gpu_of_a_group_is_paid() -> None:
    """The fixed cost of a step is paid by each GPU, the shared work once."""
    entry = make_demo_entry().model_copy(update={"cost": CostModel(fixed_s=1.0, linear_s=0.1, quadratic_s=0.0)})
    bucket = entry.buckets[0].model_copy(update={"group_size": 4})
    tokens = entry.geometry.compute_tokens(bucket.width, bucket.height, bucket.num_frames)
    assert (4 * 1.0 + 0.1 * tokens) * 3 == pytest.approx(compute_gpu_s(entry, bucket, 3))
