"""Decoded parts become stored pieces: none too large, each saying where it begins."""

from collections.abc import Generator
from typing import Any

import numpy as np
import pytest

from unit.denoise.chain import Tone
from vitascope.contracts import chunks
from vitascope.contracts.chunks import HEADER_BYTES, unpack_audio, unpack_chunk
from vitascope.decode import pieces as pieces_module
from vitascope.decode.pieces import make_pieces
from vitascope.decode.ring import Piece, RingClosed
from vitascope.runtime.stage import Pulse


class ScriptedDecoder:
    """Gives the parts it was made with."""

    def __init__(self, *parts: Any) -> None:
        self.parts, self.is_closed = parts, False

    def stream(self, *_how: object) -> Generator[Any, None, None]:
        try:
            yield from self.parts
        finally:
            self.is_closed = True

    def prove(self) -> None:
        """Nothing asks for it here."""


def collect(decoder: ScriptedDecoder) -> list[Piece]:
    made: list[Piece] = []
    make_pieces(decoder, made.append, Pulse(), model="m", blob=b"", tile_px=None)
    return made


def test_frames_say_where_they_begin() -> None:
    """First frames add up over the parts."""
    parts = [np.full((frames, 2, 4, 3), frames, np.uint8) for frames in (1, 4, 2)]
    made = collect(ScriptedDecoder(*parts))
    unpacked = [unpack_chunk(piece.content) for piece in made]
    assert [0, 1, 5] == [first for _, first in unpacked]
    assert all(np.array_equal(part, pixels) for part, (pixels, _) in zip(parts, unpacked, strict=True))


def test_large_part_is_split(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part above the limit becomes several pieces; no frame is cut."""
    for module in (chunks, pieces_module):
        monkeypatch.setattr(module, "MAX_CHUNK_BYTES", 60)
    frames = np.arange(5 * 2 * 4 * 3, dtype=np.uint8).reshape(5, 2, 4, 3)
    made = collect(ScriptedDecoder(frames))
    assert [2, 2, 1] == [piece.frames for piece in made]
    assert [0, 2, 4] == [unpack_chunk(piece.content)[1] for piece in made]
    assert frames.tobytes() == b"".join(piece.content[HEADER_BYTES:] for piece in made)


def test_sound_has_no_frames() -> None:
    """Sound comes first and moves no frame."""
    samples = np.linspace(-1, 1, 10, dtype=np.float32).reshape(1, 10)
    sound, picture = collect(ScriptedDecoder(Tone(samples, 8000), np.zeros((1, 2, 2, 3), np.uint8)))
    unpacked, rate = unpack_audio(sound.content)
    assert (0, 8000) == (sound.frames, rate)
    assert np.array_equal(samples, unpacked)
    assert unpack_chunk(picture.content)[1] == 0


def test_closed_ring_ends_the_decoder() -> None:
    """When nobody takes any more, the stream is closed, and that is no failure."""
    decoder = ScriptedDecoder(np.zeros((1, 2, 2, 3), np.uint8))

    def refuse(_piece: Piece) -> None:
        raise RingClosed

    make_pieces(decoder, refuse, Pulse(), model="m", blob=b"", tile_px=None)
    assert decoder.is_closed


def test_waiting_for_room_is_not_the_decoders_silence() -> None:
    """Each part is a sign of life; while the piece waits to be stored, the work counts as waiting."""
    pulse, seen = Pulse(), list[tuple[bool, int]]()

    def put(_piece: Piece) -> None:
        seen.append((pulse.is_waiting, pulse.touches))

    parts = [np.zeros((1, 2, 2, 3), np.uint8)] * 2
    make_pieces(ScriptedDecoder(*parts), put, pulse, model="m", blob=b"", tile_px=None)
    assert [True, True] == [is_waiting for is_waiting, _ in seen]
    assert seen[0][1] < seen[1][1]
    assert not pulse.is_waiting
