"""Frame rates: exact fractions, NTSC rates found again, and nothing that no file could have (BR-02)."""

from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitascope.admission import Admitted
from vitascope.admission.fields import Fields
from vitascope.admission.rate import format_fps, read_fps
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.models import Limits

Admit = Callable[..., Admitted]


@pytest.mark.parametrize(
    ("value", "rate"),
    [
        pytest.param(8, Fraction(8), id="whole"),
        pytest.param(24.0, Fraction(24), id="whole-float"),
        pytest.param("24000/1001", Fraction(24000, 1001), id="ratio"),
        pytest.param("2997/125", Fraction(2997, 125), id="another-ratio"),
        pytest.param("30/2", Fraction(15), id="reduced"),
        pytest.param(23.976, Fraction(24000, 1001), id="23.976"),
        pytest.param(23.976024, Fraction(24000, 1001), id="23.976024"),
        pytest.param(29.97, Fraction(30000, 1001), id="29.97"),
        pytest.param(59.94, Fraction(60000, 1001), id="59.94"),
        pytest.param(119.88, Fraction(120000, 1001), id="119.88"),
        pytest.param(12.5, Fraction(25, 2), id="half"),
        pytest.param(23.98, Fraction(1199, 50), id="decimal-that-is-not-ntsc"),
        pytest.param(1, Fraction(1), id="lowest"),
        pytest.param(120, Fraction(120), id="highest"),
    ],
)
def test_rates_are_exact(admit_body: Admit, value: object, rate: Fraction) -> None:
    """What the request keeps is a fraction, not a rounded number."""
    assert rate == admit_body(fps=value).request.fps


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(0, id="nought"),
        pytest.param(-1, id="negative"),
        pytest.param("NaN", id="nan-text"),
        pytest.param(float("nan"), id="nan"),
        pytest.param(float("inf"), id="infinite"),
        pytest.param(1e9, id="billion"),
        pytest.param(10**400, id="huge"),
        pytest.param(0.5, id="below"),
        pytest.param(120.5, id="above"),
        pytest.param(5e-324, id="tiny"),
        pytest.param(True, id="true"),
        pytest.param("24", id="text"),
        pytest.param("24/0", id="by-nought"),
        pytest.param("24/1/1", id="three"),
        pytest.param(" 24/1", id="blank"),
        pytest.param("24/1\n", id="line-feed"),
        pytest.param("\u0662\u0664/1", id="other-digits"),
        pytest.param("-24/1", id="negative-ratio"),
        pytest.param("240000001/10000001", id="denominator"),
        pytest.param([24, 1], id="list"),
    ],
)
def test_impossible_rates_are_refused_by_name(admit_body: Admit, value: object) -> None:
    """At submit, naming `fps`."""
    with pytest.raises(VitascopeError) as caught:
        admit_body(fps=value)
    assert (FailureCode.INVALID_REQUEST, "fps") == (caught.value.code, caught.value.param)


@given(st.floats(1, 120))
def test_any_decimal_becomes_a_near_fraction_that_a_file_can_have(value: float) -> None:
    """Within a thousandth of what was asked, and its own form is taken back as the same rate."""
    limits = Limits()
    rate = read_fps(Fields({"fps": value}), limits, Fraction(8))
    assert abs(rate - Fraction(value)) <= Fraction(1, 1000)
    assert rate.denominator <= 1001
    assert rate == read_fps(Fields({"fps": format_fps(rate)}), limits, Fraction(8))
