"""Muon: orthogonalised momentum for weight matrices (https://kellerjordan.github.io/posts/muon), in float32.

``torch.optim.Muon`` iterates in bfloat16; on a processor without bfloat16 units that took twice as long as the whole
forward and backward pass. Here, matrices of one shape are also orthogonalised together.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

import torch

COEFFICIENTS: Final = (3.4445, -4.7750, 2.0315)  # of the quintic iteration, from the page above
ITERATIONS: Final = 5
ADAMW_RMS: Final = 0.2  # typical size of an AdamW update: makes learning rates comparable


class Muon(torch.optim.Optimizer):
    """Nesterov momentum, orthogonalised, with decoupled weight decay; for parameters of two dimensions only."""

    def __init__(
        self, matrices: Iterable[torch.nn.Parameter], *, lr: float, momentum: float, weight_decay: float
    ) -> None:
        super().__init__(matrices, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        """Update every matrix that has a gradient."""
        assert closure is None, "not supported"
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[torch.nn.Parameter]] = defaultdict(list)
            for matrix in group["params"]:
                if matrix.grad is not None:
                    by_shape[matrix.shape].append(matrix)
            for shape, matrices in by_shape.items():
                updates = [self._accumulate(matrix, group["momentum"]) for matrix in matrices]
                size = group["lr"] * ADAMW_RMS * max(shape) ** 0.5
                for matrix, update in zip(matrices, orthogonalise(torch.stack(updates)), strict=True):
                    matrix.mul_(1 - group["lr"] * group["weight_decay"]).add_(update, alpha=-size)

    def _accumulate(self, matrix: torch.nn.Parameter, momentum: float) -> torch.Tensor:
        """Take the gradient into the momentum and return the Nesterov look-ahead."""
        state = self.state[matrix]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(matrix)
        buffer = state["momentum_buffer"].lerp_(matrix.grad, 1 - momentum)
        return matrix.grad.lerp(buffer, momentum)


def orthogonalise(matrices: torch.Tensor) -> torch.Tensor:
    """Roughly the nearest orthogonal matrix of each of (batch, rows, columns); singular values end near 1."""
    if matrices.shape[-2] > matrices.shape[-1]:
        return orthogonalise(matrices.mT).mT
    a, b, c = COEFFICIENTS
    x = matrices / matrices.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-7)
    for _ in range(ITERATIONS):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x
