"""What a request may say, and what makes two requests the same."""

from dataclasses import FrozenInstanceError, replace
from fractions import Fraction
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch

from vitascope.engine.errors import RequestError
from vitascope.engine.inputs import MAX_SEED, MIN_SEED, GenerationInputs

REQUEST = GenerationInputs(
    prompt="a", seed=1, width=16, fps=Fraction(24000, 1001), extra={"image": np.zeros((2, 2, 3))}
)


@pytest.mark.parametrize(
    "change",
    [
        {"seed": MIN_SEED - 1},
        {"seed": MAX_SEED + 1},
        {"width": 0},
        {"height": -16},
        {"num_frames": 0},
        {"num_inference_steps": 0},
        {"fps": Fraction(0)},
        {"flow_shift": 0.0},
        {"boundary_ratio": 1.5},
    ],
    ids=lambda change: "-".join(map(str, next(iter(change.items())))),
)
def test_impossible_values_are_refused(change: dict[str, Any]) -> None:
    """Out of bounds is said where the request is made."""
    with pytest.raises(RequestError, match=next(iter(change))):
        replace(REQUEST, **change)


@pytest.mark.parametrize(
    "change",
    [
        {"prompt": "b"},
        {"seed": 2},
        {"fps": Fraction(24)},
        {"negative_prompt": ""},
        {"guidance_scale": 5.0},
        {"extra": {"image": np.ones((2, 2, 3))}},
        {"extra": {"image": np.zeros((3, 2, 2))}},
        {"extra": {}},
    ],
    ids=["prompt", "seed", "fps", "negative", "guidance", "pixels", "shape", "none"],
)
def test_any_difference_changes_the_digest(change: dict[str, Any]) -> None:
    """A checkpoint of one request is never taken for another's, media included."""
    assert REQUEST.digest() != replace(REQUEST, **change).digest()


@pytest.mark.parametrize(
    "media",
    [
        PIL.Image.new("RGB", (4, 4), "red"),
        [PIL.Image.new("RGB", (4, 4), "red")] * 2,
        torch.ones(2, dtype=torch.bfloat16),
        torch.tensor(1.0),
        torch.zeros(0),
        {"edge": [np.zeros(2)]},
        True,
        None,
    ],
    ids=["picture", "pictures", "bfloat16", "scalar-tensor", "empty-tensor", "nested", "switch", "none"],
)
def test_equal_requests_have_equal_digests(media: Any) -> None:
    """Whatever kind of media it holds."""
    one, other = (GenerationInputs(prompt="a", seed=1, extra={"x": media}) for _ in range(2))

    assert one.digest() == other.digest()


def test_what_is_no_media_is_refused() -> None:
    """An object that has no content to compare cannot be part of a request."""
    with pytest.raises(RequestError, match="type object cannot be an input"):
        GenerationInputs(prompt="a", seed=1, extra={"x": object()}).digest()


def test_request_cannot_change() -> None:
    """Neither its fields nor, through the mapping that was given, its extras."""
    given = {"a": 1}
    request = GenerationInputs(prompt="a", seed=1, extra=given)
    given["a"] = 2

    assert request.extra["a"] == 1
    with pytest.raises(TypeError):
        request.extra["a"] = 3  # type: ignore[index] # that it cannot be set is the point
    with pytest.raises(FrozenInstanceError):
        request.seed = 2  # type: ignore[misc] # that it cannot be set is the point
