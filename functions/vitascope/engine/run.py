"""Runs the blocks of a stage in order, on one state."""

from collections.abc import Mapping
from typing import Any

from vitascope.engine.codec import Packer, dumps, loads, unpack
from vitascope.engine.errors import BlobFormatError, RequestError
from vitascope.engine.library import Blocks, Pipe, PipelineState, State
from vitascope.engine.loop import OnStep, run_loop
from vitascope.engine.stages import live_after, loops_in

HAND_OVER = "latents"


def fill_defaults(blocks: Blocks, state: State) -> None:
    """Sets the blocks' default for every input that the state lacks."""
    for param in blocks.inputs:
        if param.name and param.name not in state.values:
            state.set(param.name, param.default, param.kwargs_type)


def run_stage(
    pipe: Pipe,
    blocks: Blocks,
    state: State,
    *,
    on_step: OnStep | None = None,
    resume: bytes | None = None,
    chunk_count: str | None = None,
    stamp: Mapping[str, Any] | None = None,
) -> State:
    """Runs `blocks` one after the other on `state` itself (the library's own call would deep-copy it).

    The caller holds `torch.no_grad`. `on_step`, `resume`, `chunk_count` and `stamp` are for the block with the loop,
    see `run_loop`.

    Raises:
        RequestError: a block before the loop does not accept what the request asks for (a size, a frame count).
    """
    fill_defaults(blocks, state)
    for name, block in blocks.sub_blocks.items():
        if loops_in(block):
            run_loop(block, pipe, state, on_step=on_step, resume=resume, chunk_count=chunk_count, stamp=stamp)
            continue
        try:
            block(pipe, state)
        except (TypeError, ValueError) as error:
            raise RequestError(f"{name}: {error}") from error
    return state


def pack_hand_over(state: State, stages: Mapping[str, Blocks], stage: str, stamp: Mapping[str, Any]) -> bytes:
    """What the stages after `stage` still read, as bytes."""
    names, tags = live_after(stages, stage)
    kept = names | {name for tag in tags for name in state.kwargs_mapping.get(tag, [])}
    values = {name: value for name, value in state.values.items() if name in kept and value is not None}
    tagged = {
        tag: [name for name in dict.fromkeys(members) if name in values]
        for tag, members in state.kwargs_mapping.items()
    }
    packer = Packer()
    return dumps(packer, packer.pack([values, tagged]), kind=HAND_OVER, stamp=stamp)


def unpack_hand_over(data: bytes) -> tuple[State, dict[str, Any]]:
    """The state that was packed, on the CPU, and its stamp.

    Raises:
        BlobError: damaged, of another kind, or from other library versions.
    """
    blob = loads(data, kind=HAND_OVER)
    content = unpack(blob, blob.body)
    if not (isinstance(content, list) and len(content) == 2 and all(isinstance(part, dict) for part in content)):  # noqa: PLR2004 - values and tags
        raise BlobFormatError("the hand-over does not hold values and tags")
    values, tagged = content
    return PipelineState(values, tagged), blob.stamp
