"""Chunks come back as they went, without a copy, and hostile bytes are refused."""

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitascope.contracts.chunks import (
    HEADER_BYTES,
    MAX_CHUNK_BYTES,
    ChunkInvalid,
    pack_audio,
    pack_chunk,
    unpack_audio,
    unpack_chunk,
)

PIXELS = np.arange(2 * 4 * 6 * 3, dtype=np.uint8).reshape(2, 4, 6, 3)
SOUND = np.linspace(-1, 1, 20, dtype=np.float32).reshape(2, 10)


def pixel_header(frames: int = 2, height: int = 4, width: int = 6, payload_bytes: int = 144) -> bytes:
    return struct.pack("<8s4IQ", b"VITAPIX1", frames, height, width, 0, payload_bytes)


def sound_header(channels: int = 2, rate: int = 48000, reserved: int = 0, payload_bytes: int = 80) -> bytes:
    return struct.pack("<8s4IQ", b"VITASND1", channels, rate, reserved, 0, payload_bytes)


@given(
    frames=st.integers(1, 4),
    height=st.integers(1, 9),
    width=st.integers(1, 9),
    first_frame=st.integers(0, 2**32 - 1),
)
def test_pixels_come_back(frames: int, height: int, width: int, first_frame: int) -> None:
    """Shape, values and place in the film survive."""
    pixels = np.random.default_rng(frames).integers(0, 256, (frames, height, width, 3), np.uint8)
    back, first = unpack_chunk(b"".join(pack_chunk(pixels, first_frame)))
    np.testing.assert_array_equal(pixels, back)
    assert first_frame == first


def test_pixels_are_not_copied() -> None:
    """The payload is the array's own memory, and the array that comes back is the object's."""
    _, payload = pack_chunk(PIXELS, 0)
    assert np.shares_memory(PIXELS, np.frombuffer(payload, np.uint8))
    chunk = bytearray(b"".join(pack_chunk(PIXELS, 0)))
    back, _ = unpack_chunk(chunk)
    assert np.shares_memory(back, np.frombuffer(chunk, np.uint8))
    assert back.flags.c_contiguous


def test_layout_on_the_wire_is_fixed() -> None:
    """Bytes as documented: other builds read what this one wrote."""
    header, payload = pack_chunk(PIXELS, 7)
    assert struct.pack("<8sIIIIQ", b"VITAPIX1", 2, 4, 6, 7, 144) == header
    assert bytes(range(144)) == payload


def test_sound_comes_back() -> None:
    """Shape, values and rate survive."""
    chunk = b"".join(pack_audio(SOUND, 44100))
    assert len(chunk) == HEADER_BYTES + 80
    back, rate = unpack_audio(chunk)
    np.testing.assert_array_equal(SOUND, back)
    assert (44100, np.float32) == (rate, back.dtype)


@pytest.mark.parametrize(
    "chunk",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"VITAPIX1", id="header cut"),
        pytest.param(pixel_header(), id="payload missing"),
        pytest.param(pixel_header() + bytes(143), id="payload cut"),
        pytest.param(pixel_header() + bytes(145), id="payload too long"),
        pytest.param(pixel_header(frames=3) + bytes(144), id="more frames than bytes"),
        pytest.param(pixel_header(width=2**32 - 1, height=2**32 - 1) + bytes(144), id="sizes that overflow"),
        pytest.param(pixel_header(frames=0) + bytes(144), id="no frames"),
        pytest.param(pixel_header(frames=0, payload_bytes=0), id="nothing at all"),
        pytest.param(pixel_header(payload_bytes=MAX_CHUNK_BYTES + 1) + bytes(144), id="claims too much"),
        pytest.param(pixel_header(payload_bytes=2**64 - 1) + bytes(144), id="claims everything"),
        pytest.param(b"VITAPIX2" + pixel_header()[8:] + bytes(144), id="another version"),
        pytest.param(sound_header() + bytes(80), id="sound for pixels"),
    ],
)
def test_hostile_pixels_are_refused(chunk: bytes) -> None:
    """A typed error, whatever the bytes claim."""
    with pytest.raises(ChunkInvalid):
        unpack_chunk(chunk)


@pytest.mark.parametrize(
    "chunk",
    [
        pytest.param(pixel_header() + bytes(144), id="pixels for sound"),
        pytest.param(sound_header(channels=0) + bytes(80), id="no channels"),
        pytest.param(sound_header(channels=9) + bytes(80), id="too many channels"),
        pytest.param(sound_header(channels=3) + bytes(80), id="uneven channels"),
        pytest.param(sound_header(rate=0) + bytes(80), id="no rate"),
        pytest.param(sound_header(reserved=1) + bytes(80), id="reserved bytes used"),
        pytest.param(sound_header(payload_bytes=79) + bytes(79), id="part of a sample"),
        pytest.param(sound_header() + bytes(76), id="payload cut"),
    ],
)
def test_hostile_sound_is_refused(chunk: bytes) -> None:
    """A typed error, whatever the bytes claim."""
    with pytest.raises(ChunkInvalid):
        unpack_audio(chunk)


@given(st.binary(max_size=400))
def test_random_bytes_never_do_more_than_be_refused(junk: bytes) -> None:
    """No other exception comes out."""
    for magic, unpack in ((b"VITAPIX1", unpack_chunk), (b"VITASND1", unpack_audio)):
        with pytest.raises(ChunkInvalid):
            unpack(magic + junk)


@pytest.mark.parametrize(
    "pixels",
    [
        pytest.param(PIXELS[:, :, ::2], id="strided"),
        pytest.param(PIXELS[:0], id="empty"),
        pytest.param(PIXELS.astype(np.int16), id="wrong type"),
    ],
)
def test_packing_something_else_is_our_bug(pixels: np.ndarray) -> None:
    """Decode makes chunks; one that is wrong stops it at once."""
    with pytest.raises(AssertionError):
        pack_chunk(pixels, 0)
