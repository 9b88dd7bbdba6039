"""The denoise loop, step by step: progress, checkpoint, stop, resume. One code path for every family and sampler.

A family's own loop wrapper runs, with the `loop_step` of its loop block replaced: the replacement counts, calls back
between steps, and on resume skips to the saved step. A checkpoint holds what the loop changed since preparation;
preparation itself is repeated from the request, because it is cheap and exact.

Private surface of diffusers used here: `_execution_device`, and `loop_step` and `scheduler.step` being looked up on the
instance.
"""

import inspect
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from vitascope.engine.changes import mark
from vitascope.engine.codec import Blob, Packer, check_stamp, dumps, loads, unpack
from vitascope.engine.errors import BlobFormatError, BlobVersionError
from vitascope.engine.library import BaseGuidance, Blocks, Pipe, SchedulerMixin, State
from vitascope.engine.replace import replaced
from vitascope.engine.restorable import attributes, is_restorable
from vitascope.engine.stages import loops_in

CHECKPOINT = "checkpoint"


class Stop(Exception):
    """Raised by a step callback to leave the loop after the step it was told about (cancel, preempt, deadline)."""


@dataclass(frozen=True)
class StepReport:
    """One finished step.

    Attributes:
        step: how many steps are done, from 1.
        steps: how many there are.
        snapshot: makes the checkpoint of this moment. It copies to host memory at once; call it inside the callback
            only, and upload the bytes elsewhere.
    """

    step: int
    steps: int
    snapshot: Callable[[], bytes]


OnStep = Callable[[StepReport], None]


def run_loop(
    block: Blocks,
    pipe: Pipe,
    state: State,
    *,
    on_step: OnStep | None = None,
    resume: bytes | None = None,
    chunk_count: str | None = None,
    stamp: Mapping[str, Any] | None = None,
) -> None:
    """Runs one block that holds the denoise loop, on `state` in place.

    Args:
        block: the block; its loops may be nested in loops of its own.
        pipe: the job's pipeline.
        state: after preparation.
        on_step: called after every step; what it raises leaves the loop as it is.
        resume: a checkpoint of the same request; steps that it covers are neither run nor reported.
        chunk_count: name of the state value that counts the passes around the steps, where a family has such.
        stamp: goes into every checkpoint made here, and must be that of `resume`.

    Raises:
        BlobError: `resume` is damaged, from other versions, or beyond the end of this request.
    """
    driver = LoopDriver(pipe, state, on_step=on_step, resume=resume, chunk_count=chunk_count, stamp=stamp)
    with ExitStack() as stack:
        for loop in loops_in(block):
            loop.set_progress_bar_config(disable=True)
            stack.enter_context(replaced(loop, "loop_step", partial(driver.step, loop, loop.loop_step)))
        for scheduler, step in driver.seeded_steps():
            stack.enter_context(replaced(scheduler, "step", step))
        block(pipe, state)
    assert driver.done >= driver.resume_step, "a checkpoint beyond the end was let through"


class LoopDriver:
    """Counts the steps of one run of a loop, and moves its state to and from checkpoints."""

    def __init__(
        self,
        pipe: Pipe,
        state: State,
        *,
        on_step: OnStep | None,
        resume: bytes | None,
        chunk_count: str | None,
        stamp: Mapping[str, Any] | None,
    ) -> None:
        self.pipe = pipe
        self.state = state
        self.on_step = on_step
        self.chunk_count = chunk_count
        self.stamp = stamp
        self.done = 0
        self.steps = 0
        self.checkpoint = _read_checkpoint(resume, stamp) if resume is not None else None
        self.resume_step = _step_of(self.checkpoint) if self.checkpoint else 0
        self.base: dict[str, Any] = {}
        self.base_rng: torch.Tensor | None = None

    def step(self, loop: Blocks, original: Callable[..., Any], pipe: Pipe, block_state: Any, /, **where: Any) -> Any:
        """Stands in for `loop.loop_step`. `where` is i and t in step loops, k in loops over chunks."""
        if self.base_rng is None:
            self._begin(block_state, has_steps="t" in where)
        skipped = self.done < self.resume_step
        if skipped:
            # Leave behind the names that the wrapper collects from each pass.
            vars(block_state).update(
                {name: getattr(block_state, name, None) for name in loop.intermediate_output_names}
            )
        else:
            pipe, block_state = original(pipe, block_state, **where)
        self.done += 1
        if skipped and self.done == self.resume_step:
            self._restore(block_state)
        if self.on_step and not skipped:
            self.on_step(StepReport(self.done, self.steps, partial(self._snapshot, block_state, self.done)))
        return pipe, block_state

    def seeded_steps(self) -> list[tuple[SchedulerMixin, Callable[..., Any]]]:
        """For each scheduler, a `step` that draws noise from the job's generator, if it draws any.

        The loops of Wan and LTX-2 pass no generator, and stochastic samplers would draw from the process-wide one; the
        loop of Wan Animate 2 passes one to samplers that take none. This is done around the loop only: preparation may
        copy a scheduler, and a copy of a replaced `step` would step the original.
        """
        generator = self.state.values.get("generator")
        if generator is None:
            return []
        return [
            (scheduler, partial(_step_with, scheduler, _generator_argument(scheduler, generator)))
            for scheduler in self.pipe.components.values()
            if isinstance(scheduler, SchedulerMixin)
        ]

    def _begin(self, block_state: Any, *, has_steps: bool) -> None:
        self.base = {part: mark(dict(values)) for part, values in self._parts(block_state).items()}
        self.base_rng = torch.get_rng_state()
        self.steps = self._count_steps(block_state, has_steps=has_steps)
        if self.resume_step > self.steps:
            raise BlobVersionError(f"the checkpoint is at step {self.resume_step}, this request has {self.steps}")

    def _count_steps(self, block_state: Any, *, has_steps: bool) -> int:
        values = self.state.values | vars(block_state)
        passes = values.get(self.chunk_count) if self.chunk_count else None
        return (1 if passes is None else int(passes)) * (len(values["timesteps"]) if has_steps else 1)

    def _parts(self, block_state: Any) -> dict[str, dict[str, Any]]:
        tools = {
            name: component
            for name, component in self.pipe.components.items()
            if isinstance(component, (SchedulerMixin, BaseGuidance))
        }
        return {"block": vars(block_state), "state": self.state.values, "tools": tools}

    def _snapshot(self, block_state: Any, step: int) -> bytes:
        assert step == self.done, "a snapshot is made inside the callback of its step"
        packer = Packer()
        body: dict[str, Any] = {"step": step}
        for part, values in self._parts(block_state).items():
            base = self.base[part]
            # Block values born inside the loop are scratch, made anew in every pass.
            kept = {name: value for name, value in values.items() if name in base or part == "state"}
            body[part] = {
                name: _pack_change(packer, value, base.get(name))
                for name, value in kept.items()
                if mark(value) != base.get(name)
            }
        rng = torch.get_rng_state()
        if self.base_rng is not None and not torch.equal(rng, self.base_rng):
            body["rng"] = packer.pack(rng)
        return dumps(packer, body, kind=CHECKPOINT, stamp=self.stamp)

    def _restore(self, block_state: Any) -> None:
        assert self.checkpoint is not None
        blob, device = self.checkpoint, self.pipe._execution_device  # noqa: SLF001 - see the module docstring
        for part, values in self._parts(block_state).items():
            saved = blob.body.get(part)
            if not isinstance(saved, dict):
                raise BlobFormatError(f"the checkpoint has no part {part!r}")
            for name, packed in saved.items():
                values[name] = unpack(blob, packed, old=values.get(name), device=device)
        if "rng" in blob.body:
            rng = unpack(blob, blob.body["rng"])
            try:
                torch.set_rng_state(rng)
            except (RuntimeError, TypeError) as error:
                raise BlobFormatError("the checkpoint holds no generator state where one belongs") from error


def _pack_change(packer: Packer, value: object, was: object) -> Any:
    """Schedulers and guiders attribute by attribute, all else whole."""
    if not (is_restorable(value) and isinstance(was, dict)):
        return packer.pack(value)
    moved = {name: item for name, item in attributes(value).items() if mark(item) != was.get(name)}
    return packer.pack_object(value, {name: _pack_change(packer, item, was.get(name)) for name, item in moved.items()})


def _read_checkpoint(data: bytes, stamp: Mapping[str, Any] | None) -> Blob:
    checkpoint = loads(data, kind=CHECKPOINT)
    check_stamp(checkpoint, stamp or {})
    return checkpoint


def _step_of(checkpoint: Blob) -> int:
    step = checkpoint.body.get("step") if isinstance(checkpoint.body, dict) else None
    if type(step) is not int or step < 1:
        raise BlobFormatError(f"the checkpoint is at step {step!r}")
    return step


def _generator_argument(scheduler: SchedulerMixin, generator: torch.Generator) -> dict[str, torch.Generator]:
    return {"generator": generator} if "generator" in inspect.signature(scheduler.step).parameters else {}


def _step_with(scheduler: SchedulerMixin, ours: dict[str, torch.Generator], /, *args: Any, **kwargs: Any) -> Any:
    kwargs.pop("generator", None)  # the job has only one, and it is in `ours` if this scheduler takes it
    # Through the class: the instance's own attribute is the replacement.
    return type(scheduler).step(scheduler, *args, **kwargs, **ours)
