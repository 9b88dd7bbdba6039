"""Checkpoints that are there whole or not at all."""

from pathlib import Path
from typing import Any

import torch


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Write beside the file, then rename over it."""
    part = path.with_suffix(".part")
    torch.save(state, part)
    part.replace(path)


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint onto the processor; only tensors and plain values are accepted."""
    return torch.load(path, map_location="cpu", weights_only=True)
