"""The engine as the denoise handler sees it. `wiring` puts the real one behind it."""

from collections.abc import Callable, Sequence
from typing import Protocol

from vitascope.contracts.jobs import Engine, VideoRequest

OnStep = Callable[[int, int, Callable[[], bytes]], None]
"""Called after every step, in the sampler's thread: steps done, steps in all, and what makes a checkpoint of now.

The last argument may be called inside the call only.
"""


class Stopped(Exception):
    """Raised by a step callback to leave the loop between two steps; a denoiser lets it through."""


class CheckpointUnfit(Exception):
    """The checkpoint cannot be resumed from: damaged, or of another engine, model or request. No step was run."""


class Denoiser(Protocol):
    """Turns requests into latents, one at a time. Blocking; used from one thread only."""

    def describe(self, model: str) -> Engine:
        """What would make the video. Equal engines can resume each other's checkpoints.

        Raises:
            VitascopeError: `model_not_found`, this process has not loaded it.
        """
        ...

    def run(
        self,
        request: VideoRequest,
        references: Sequence[bytes],
        on_step: OnStep,
        resume: bytes | None,
    ) -> bytes:
        """Denoise to the end and give what decode needs, as one blob.

        Args:
            request: what to make; its seed decides all noise.
            references: contents of `request.references`, in their order.
            on_step: see `OnStep`; what it raises ends the run and comes through unchanged.
            resume: a checkpoint; the run goes on after its step, and steps before it are neither run nor reported.

        Raises:
            CheckpointUnfit: see there.
            MemoryError: the device has too little memory.
            VitascopeError: whatever else went wrong.
        """
        ...

    def prove(self) -> None:
        """Make one step of a tiny video with every model that this process has loaded.

        Raises:
            Exception: a model does not work any more.
        """
        ...
