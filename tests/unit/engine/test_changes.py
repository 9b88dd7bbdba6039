"""What counts as changed since a mark."""

from collections.abc import Callable
from typing import Any

import diffusers
import pytest
import torch

from vitascope.engine.changes import mark


def in_place(values: dict[str, Any]) -> None:
    values["tensor"].add_(1)


CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "tensor-in-place": in_place,  # as MiniMax-H3 updates its latents
    "tensor-replaced": lambda values: values.update(tensor=values["tensor"].clone()),
    "scalar": lambda values: values.update(number=2),
    "scalar-of-another-type": lambda values: values.update(number=True),
    "list-appended": lambda values: values["list"].append(0),
    "list-item": lambda values: values["list"].__setitem__(0, torch.ones(1)),
    "dict-entry": lambda values: values["dict"].update(inner=3),
    "scheduler-attribute": lambda values: setattr(values["scheduler"], "_step_index", 1),
    "generator-drawn": lambda values: torch.rand(1, generator=values["generator"]),
}


def make() -> dict[str, Any]:
    return {
        "tensor": torch.zeros(2),
        "number": 1,
        "list": [torch.zeros(1)],
        "dict": {"inner": 2},
        "scheduler": diffusers.UniPCMultistepScheduler(),
        "generator": torch.Generator(),
        "none": None,
    }


@pytest.mark.parametrize("change", CHANGES)
def test_change_is_seen(change: str) -> None:
    """Every way in which loops change their state, in place too."""
    values = make()
    before = mark(values)
    CHANGES[change](values)

    assert before != mark(values)


def test_nothing_changed() -> None:
    """Reading does not count as a change."""
    values = make()
    before = mark(values)
    torch.stack([values["tensor"], values["tensor"]])

    assert before == mark(values)
