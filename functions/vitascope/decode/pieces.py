"""Decoded frames and sound as pieces to store; runs in the decoder's thread."""

from collections.abc import Callable, Iterator
from contextlib import closing

import numpy as np

from vitascope.contracts.chunks import MAX_CHUNK_BYTES, pack_audio, pack_chunk
from vitascope.decode.decoder import Decoder, Frames, Sound
from vitascope.decode.ring import Piece, RingClosed
from vitascope.runtime.stage import Pulse


def make_pieces(
    decoder: Decoder,
    put: Callable[[Piece], None],
    pulse: Pulse,
    *,
    model: str,
    blob: bytes,
    tile_px: int | None,
) -> None:
    """Decode a clip and put it, piece by piece, until its end or until nobody takes any more.

    Raises:
        Exception: what the decoder raises.
    """
    first_frame = 0
    with closing(decoder.stream(model, blob, tile_px)) as decoded:
        try:
            for part in decoded:
                pulse.touch()
                for piece in _pack(part, first_frame):
                    with pulse.waiting():  # for room: while chunks are being stored, the decoder is not to blame
                        put(piece)
                    first_frame += piece.frames
        except RingClosed:
            return


def split_frames(frames: Frames) -> Iterator[Frames]:
    """Parts of at most `MAX_CHUNK_BYTES`; one frame of the largest size that is offered is smaller than that."""
    most = max(1, MAX_CHUNK_BYTES // frames[0].nbytes)
    return (frames[start : start + most] for start in range(0, len(frames), most))


def _pack(part: Sound | Frames, first_frame: int) -> Iterator[Piece]:
    if not isinstance(part, np.ndarray):
        assert first_frame == 0, "sound comes before the frames"
        yield Piece(b"".join(pack_audio(part.samples, part.sample_rate_hz)), frames=0)
        return
    for frames in split_frames(part):
        yield Piece(b"".join(pack_chunk(frames, first_frame)), frames=len(frames))
        first_frame += len(frames)
