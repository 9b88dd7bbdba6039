"""Cuts a family's blocks into encode, denoise and decode, and says what must travel between them."""

from collections.abc import Mapping
from typing import Any

from vitascope.engine.library import (
    Blocks,
    ConditionalPipelineBlocks,
    LoopSequentialPipelineBlocks,
    SequentialPipelineBlocks,
    diffusers,
)

STAGES = ("encode", "denoise", "decode")


def create_blocks(class_name: str) -> Blocks:
    """A fresh tree of a family's blocks; blocks hold no weights."""
    return getattr(diffusers, class_name)()


def split(blocks: Blocks, inputs: Mapping[str, Any]) -> dict[str, Blocks]:
    """The stages that run for these inputs, as flat sequences of blocks, in order.

    The top-level block that holds a loop is the denoise stage; what stands before it is encode, what stands after it
    is decode. Conditional blocks are resolved by which `inputs` are present (not None); a stage without blocks is
    left out.
    """
    present = {name: value for name, value in inputs.items() if value is not None}
    found: dict[str, dict[str, Blocks]] = {}
    stage = "encode"
    for name, block in blocks.sub_blocks.items():
        if loops_in(block):
            stage = "denoise"
        elif stage == "denoise":
            stage = "decode"
        found.setdefault(stage, {}).update(_resolve(block, present, name))
    return {stage: SequentialPipelineBlocks.from_blocks_dict(leaves) for stage, leaves in found.items() if leaves}


def join(*stages: Blocks) -> Blocks:
    """Several stages as one sequence."""
    return SequentialPipelineBlocks.from_blocks_dict(
        {name: block for stage in stages for name, block in stage.sub_blocks.items()}
    )


def loops_in(block: Blocks) -> list[Blocks]:
    """The loop blocks inside a block, or the block itself."""
    if isinstance(block, LoopSequentialPipelineBlocks):
        return [block]
    return [loop for child in block.sub_blocks.values() for loop in loops_in(child)]


def live_after(stages: Mapping[str, Blocks], name: str) -> tuple[set[str], set[str]]:
    """Names, and tags of names, that any stage after `name` still reads: exactly what has to travel."""
    order = list(stages)
    names: set[str] = set()
    tags: set[str] = set()
    for later in reversed(order[order.index(name) + 1 :]):
        stage = stages[later]
        names = names - {output.name for output in stage.intermediate_outputs}
        names |= {param.name for param in stage.inputs if param.name}
        tags |= {param.kwargs_type for param in stage.inputs if not param.name and param.kwargs_type}
    return names, tags


def _resolve(block: Blocks, present: dict[str, Any], name: str) -> dict[str, Blocks]:
    """Flat {path: leaf} that runs for the present inputs; what a leaf makes is present for those after it.

    A sequence with a `__call__` of its own is a hidden loop and stays whole.
    """
    if isinstance(block, ConditionalPipelineBlocks):
        triggers = {trigger: present.get(trigger) for trigger in block.block_trigger_inputs if trigger}
        chosen = block.select_block(**triggers) or block.default_block_name
        return _resolve(block.sub_blocks[chosen], present, name) if chosen else {}
    plain = isinstance(block, SequentialPipelineBlocks) and type(block).__call__ is SequentialPipelineBlocks.__call__
    if plain:
        return {
            path: leaf
            for child_name, child in block.sub_blocks.items()
            for path, leaf in _resolve(child, present, f"{name}.{child_name}").items()
        }
    present.update({output.name: True for output in block.intermediate_outputs})
    return {name: block}
