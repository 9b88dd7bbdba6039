"""A shape by its proportions: the model's size that has them, or a refusal with those that there are."""

from collections.abc import Callable
from typing import Any

import pytest

from vitascope.admission import Admitted
from vitascope.contracts.failures import FailureCode, VitascopeError

Admit = Callable[..., Admitted]
INVALID, SHAPE = FailureCode.INVALID_REQUEST, FailureCode.SHAPE_NOT_ALLOWED


@pytest.mark.parametrize(
    ("body", "size"),
    [
        pytest.param({"aspect_ratio": "1:1"}, (64, 64), id="default"),
        pytest.param({"aspect_ratio": 1}, (64, 64), id="number"),
        pytest.param({"aspect_ratio": "3:2"}, (96, 64), id="wide"),
        pytest.param({"aspect_ratio": "1.5"}, (96, 64), id="number-in-a-string"),
        pytest.param({"aspect_ratio": "2:3"}, (64, 96), id="tall"),
        pytest.param({"aspect_ratio": 1.57}, (96, 64), id="within-5-percent"),
        pytest.param({"short_edge": 96}, (96, 96), id="edge"),
        pytest.param({"short_edge": 64}, (64, 64), id="edge-of-the-default"),
        pytest.param({"aspect_ratio": "1:1", "short_edge": 128}, (128, 128), id="both"),
        pytest.param({"aspect_ratio": "3:2", "size": "96x64"}, (96, 64), id="beside-a-size"),
        pytest.param({"short_edge": 64, "width": 64, "height": 96}, (64, 96), id="beside-sides"),
        pytest.param({"aspect_ratio": None}, (64, 64), id="null"),
    ],
)
def test_the_size_that_has_them_is_taken(admit_body: Admit, body: dict[str, Any], size: tuple[int, int]) -> None:
    """The default before others, then the nearest in area."""
    request = admit_body(**body).request
    assert size == (request.width, request.height)


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        pytest.param({"aspect_ratio": "21:9"}, SHAPE, "aspect_ratio", id="no-such-ratio"),
        pytest.param({"short_edge": 768}, SHAPE, "short_edge", id="no-such-edge"),
        pytest.param({"aspect_ratio": "3:2", "short_edge": 96}, SHAPE, "short_edge", id="not-both"),
        pytest.param({"aspect_ratio": "16/9"}, INVALID, "aspect_ratio", id="slash"),
        pytest.param({"aspect_ratio": "0:1"}, INVALID, "aspect_ratio", id="nought"),
        pytest.param({"aspect_ratio": "1:1\n"}, INVALID, "aspect_ratio", id="line-feed"),
        pytest.param({"aspect_ratio": 0}, INVALID, "aspect_ratio", id="number-nought"),
        pytest.param({"aspect_ratio": float("nan")}, INVALID, "aspect_ratio", id="not-a-number"),
        pytest.param({"aspect_ratio": 10**400}, INVALID, "aspect_ratio", id="absurd"),
        pytest.param({"aspect_ratio": True}, INVALID, "aspect_ratio", id="true"),
        pytest.param({"aspect_ratio": "1:9999"}, INVALID, "aspect_ratio", id="thin"),
        pytest.param({"short_edge": 0}, INVALID, "short_edge", id="edge-nought"),
        pytest.param({"short_edge": "768"}, INVALID, "short_edge", id="edge-text"),
        pytest.param({"aspect_ratio": "1:1", "size": "96x64"}, INVALID, "aspect_ratio", id="against-a-size"),
        pytest.param({"short_edge": 96, "width": 96, "height": 64}, INVALID, "short_edge", id="against-sides"),
    ],
)
def test_others_are_refused(admit_body: Admit, body: dict[str, Any], code: FailureCode, param: str) -> None:
    """By the field; what there is stands in the words."""
    with pytest.raises(VitascopeError) as caught:
        admit_body(**body)
    assert (code, param) == (caught.value.code, caught.value.param)
    assert code is INVALID or "64x64, 96x64, 64x96" in str(caught.value)
