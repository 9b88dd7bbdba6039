"""One job on a tiny family, for tests: its two stages, each in objects of its own."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from diffusers.modular_pipelines import PipelineState

from unit.engine.tiny_families import Tiny
from vitascope.engine.loop import OnStep
from vitascope.engine.pipes import build_pipe, neighbours_of
from vitascope.engine.run import pack_hand_over, run_stage, unpack_hand_over
from vitascope.engine.stages import create_blocks, split

NO_CHECKER = {"enable_safety_checker": False}


@dataclass
class Job:
    """One request on one tiny family. Components and request are made afresh, as another process would have them."""

    maker: Callable[[], Tiny]
    steps: int = 6
    parts: Mapping[str, Any] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tiny = self.maker()
        self.blocks = create_blocks(self.tiny.blocks)
        self.stages = split(self.blocks, self.tiny.inputs)
        # Ours is not run: `inputs` is what it hands over.
        self.stages.pop("encode")

    def state(self) -> PipelineState:
        inputs = self.maker().inputs | {
            "generator": torch.Generator().manual_seed(0),
            "num_inference_steps": self.steps,
            "output_type": "pt",
        }
        return PipelineState(inputs | dict(self.more), {"denoiser_input_fields": list(self.tiny.tagged)})

    def pipe(self, stage: Any) -> Any:
        components = self.maker().components | dict(self.parts)
        return build_pipe(self.blocks, stage, components, configs=NO_CHECKER, neighbours=neighbours_of(components))

    @torch.no_grad()
    def denoise(self, on_step: OnStep | None = None, resume: bytes | None = None) -> PipelineState:
        torch.manual_seed(99 if resume else 0)  # the process-wide generator must not matter
        stage = self.stages["denoise"]
        return run_stage(
            self.pipe(stage),
            stage,
            self.state(),
            on_step=on_step,
            resume=resume,
            chunk_count=self.tiny.chunk_count,
        )

    def hand_over(self, state: PipelineState) -> bytes:
        return pack_hand_over(state, self.stages, "denoise", {})

    @torch.no_grad()
    def decode(self, hand_over: bytes) -> PipelineState:
        stage = self.stages["decode"]
        return run_stage(self.pipe(stage), stage, unpack_hand_over(hand_over)[0])
