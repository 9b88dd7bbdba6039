"""The decode stage as a stream: sound first where there is any, then frames, as the VAE makes them.

The family's own decode block turns latents into the VAE's numbers and pixels into frames. It runs with `vae.decode`
replaced: once to catch what it would decode, then once per decoded piece, so that each family's arithmetic is kept.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from vitascope.engine.chunkers import chunker_for
from vitascope.engine.library import Blocks, DecoderOutput, Pipe, PipelineState, State
from vitascope.engine.replace import replaced
from vitascope.engine.run import fill_defaults

Frames: TypeAlias = NDArray[np.uint8]
VIDEO = "videos"
SOUND = ("audio", "sound")  # what the families call their waveform
SAMPLE_RATE = "sampling_rate"
# What comes whole is handed on in pieces that a buffer of 256 MiB can hold: 32 frames of 1080p are 199 MB. The longest
# piece that a VAE makes by itself is 22 frames.
MAX_FRAMES_A_PIECE = 32


@dataclass(frozen=True)
class DecodedAudio:
    """The sound of a video.

    Attributes:
        samples: float32, (channels, samples), nominally -1 to 1.
        sample_rate_hz: samples per second.
    """

    samples: NDArray[np.float32]
    sample_rate_hz: int


class _CaughtError(Exception):
    """Leaves a decode block at its call of the VAE."""


class _CalledAgainError(Exception):
    """The decode block calls the VAE more than once."""


@torch.no_grad()
def stream_decoded(
    pipe: Pipe, blocks: Blocks, state: State, *, audio_rate: tuple[str, str] | None = None
) -> Iterator[DecodedAudio | Frames]:
    """Runs a decode stage and yields its sound, at most once, and then its frames, uint8 (frames, H, W, 3).

    Families whose decode block calls the VAE many times, or not at all because pixels travel, give the same frames as
    their block does, after it has made all of them. One stream at a time on one VAE.

    Args:
        pipe: the job's decode pipeline.
        blocks: the decode stage.
        state: what the denoise stage handed over, on the pipeline's device.
        audio_rate: (component, config entry) of the sample rate, where no block says it.
    """
    fill_defaults(blocks, state)
    leaves = list(blocks.sub_blocks.values())
    at = next(position for position, leaf in enumerate(leaves) if VIDEO in _outputs(leaf))
    video = leaves[at]
    # What stands behind the frames and makes neither frames nor sound (robot actions) is not asked for here.
    sound = [leaf for leaf in leaves[at + 1 :] if _outputs(leaf) & set(SOUND) and not _outputs(video) & _inputs(leaf)]
    for leaf in leaves[:at] + sound:
        leaf(pipe, state)
    audio = _audio_of(pipe, state.values, audio_rate)
    if audio:
        yield audio
    yield from _frames_of(pipe, video, state)


def to_uint8(videos: torch.Tensor) -> Frames:
    """(1, F, 3, H, W) or (F, 3, H, W) in 0 to 1 -> (F, H, W, 3), rounded as the library's picture export rounds.

    The conversion runs where the tensor is; only bytes leave the device.
    """
    flat = videos.reshape(-1, *videos.shape[-3:])
    frames: Frames = (flat * 255).round().to(torch.uint8).permute(0, 2, 3, 1).contiguous().cpu().numpy()
    return frames


def _frames_of(pipe: Pipe, block: Blocks, state: State) -> Iterator[Frames]:
    caught: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def catch(*args: Any, return_dict: bool = True, **kwargs: Any) -> None:
        del return_dict  # the block's own taste; the pieces are handed to it as it asks
        caught.append((args, kwargs))
        raise _CaughtError

    try:
        finished = _run_video_block(pipe, block, state, catch)
    except _CaughtError:
        finished = None
    if finished is not None:
        yield from _pieces(finished)
        return
    args, kwargs = caught[0]
    vae = pipe.vae
    streamed = False
    for pixels in chunker_for(vae)(vae, *args, **kwargs):
        try:
            videos = _run_video_block(pipe, block, state, partial(_give, iter([pixels])))
        except _CalledAgainError:
            break
        streamed = True
        yield from _pieces(videos)
    if not streamed:
        yield from _pieces(_run_video_block(pipe, block, state, vae.decode))


def _run_video_block(pipe: Pipe, block: Blocks, state: State, decode: Callable[..., Any]) -> torch.Tensor:
    """The frames that the block makes with `decode` in the place of the VAE's, on a copy of the state."""
    work = PipelineState(state.values | {"output_type": "pt"}, state.kwargs_mapping)
    vae = getattr(pipe, "vae", None)
    if vae is None:
        block(pipe, work)
    else:
        with replaced(vae, "decode", decode):
            block(pipe, work)
    videos: torch.Tensor = work.values[VIDEO]
    return videos


def _give(pixels: Iterator[torch.Tensor], *_args: Any, return_dict: bool = True, **_kwargs: Any) -> Any:
    piece = next(pixels, None)
    if piece is None:
        raise _CalledAgainError
    return DecoderOutput(sample=piece) if return_dict else (piece,)


def _pieces(videos: torch.Tensor) -> Iterator[Frames]:
    flat = videos.reshape(-1, *videos.shape[-3:])
    for start in range(0, len(flat), MAX_FRAMES_A_PIECE):
        yield to_uint8(flat[start : start + MAX_FRAMES_A_PIECE])


def _audio_of(pipe: Pipe, values: Mapping[str, Any], audio_rate: tuple[str, str] | None) -> DecodedAudio | None:
    waveform = next((values[name] for name in SOUND if isinstance(values.get(name), torch.Tensor)), None)
    if waveform is None:
        return None
    rate = values.get(SAMPLE_RATE)
    if rate is None and audio_rate:
        component, entry = audio_rate
        rate = getattr(pipe, component).config[entry]
    assert rate is not None, "a family with sound has neither a sampling_rate nor a row entry for it"
    samples = waveform.reshape(-1, waveform.shape[-1]).float().cpu().numpy()
    return DecodedAudio(np.ascontiguousarray(samples), int(rate))


def _outputs(leaf: Blocks) -> set[str]:
    return {output.name for output in leaf.intermediate_outputs}


def _inputs(leaf: Blocks) -> set[str]:
    return {param.name for param in leaf.inputs}
