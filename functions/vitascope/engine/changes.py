"""Tells whether a value changed since it was marked: by identity and version, without keeping copies of tensors."""

from typing import Any

import torch

from vitascope.engine.restorable import attributes, is_restorable

SCALARS = (bool, int, float, str)


class Seen:
    """Equal while it is the same object, and for a tensor while nobody wrote into it.

    Some families update latents in place: identity alone would not show it, hence torch's version counter. Tensors
    made under `torch.inference_mode` have none, which is why the engine runs under `torch.no_grad`.
    """

    def __init__(self, value: object) -> None:
        self.value = value
        self.version = value._version if isinstance(value, torch.Tensor) else None  # noqa: SLF001 - no public name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Seen) and self.value is other.value and self.version == other.version

    __hash__ = None  # type: ignore[assignment] # compared, never looked up


def mark(value: object) -> Any:
    """What `value` is now, to compare with a later mark; deep for containers, schedulers and guiders."""
    if isinstance(value, torch.Generator):
        return value.get_state().numpy().tobytes()
    if isinstance(value, (list, tuple)):
        return [mark(item) for item in value]
    if isinstance(value, dict):
        return {name: mark(item) for name, item in value.items()}
    if is_restorable(value):
        return {name: mark(item) for name, item in attributes(value).items()}
    return (type(value), value) if type(value) in SCALARS else Seen(value)
