"""The wire format of pixels and sound between decode and encode: one object a chunk.

Both kinds start with a header of 32 bytes, its numbers little-endian. After it a pixel chunk is uint8 RGB in C order
(frame, row, column, channel); a sound chunk is little-endian float32, one channel after the other.

    bytes   pixels                 sound
    0-7     magic "VITAPIX1"       magic "VITASND1"
    8-11    frames                 channels
    12-15   height, pixels         rate, hertz
    16-19   width, pixels          zero
    20-23   first_frame            zero
    24-31   payload, bytes         payload, bytes

The digit in the magic is the version: a reader refuses one that it does not know. The object store checks lengths and
checksums in transit; the header says whether the payload is what its writer meant.
"""

import struct
import sys

import numpy as np
from numpy.typing import NDArray

HEADER_BYTES = 32
MAX_CHUNK_BYTES = 256 * 2**20  # the memory that decode's ring of chunks may take
MAX_CHANNELS = 8
_PIXEL_MAGIC = b"VITAPIX1"
_SOUND_MAGIC = b"VITASND1"
_HEADER = struct.Struct("<8s4IQ")
_MAX_UINT32 = 2**32 - 1
_RGB = 3
_FLOAT_BYTES = 4

Buffer = bytes | bytearray | memoryview


class ChunkInvalid(Exception):
    """A chunk cannot be what it claims: foreign, of another version, cut, or with sizes that contradict its length."""


def pack_chunk(pixels: NDArray[np.uint8], first_frame: int) -> tuple[bytes, memoryview]:
    """Return header and payload of `pixels`, uint8 (F, H, W, 3), C-contiguous; the payload is a view, not a copy.

    `first_frame` is the index of the chunk's first frame in the whole film.
    """
    assert pixels.dtype == np.uint8, "pixels are bytes"
    assert pixels.shape[3:] == (_RGB,), "pixels are (F, H, W, 3)"
    frames, height, width, _ = pixels.shape
    header = _pack_header(_PIXEL_MAGIC, (frames, height, width, first_frame), pixels.nbytes)
    return header, _view(pixels)


def unpack_chunk(chunk: Buffer) -> tuple[NDArray[np.uint8], int]:
    """Return pixels, uint8 (F, H, W, 3), as a view of `chunk`, and the index of their first frame.

    Raises `ChunkInvalid`. Nothing is allocated by what the header claims.
    """
    (frames, height, width, first_frame), payload = _unpack_header(_PIXEL_MAGIC, chunk)
    _must_match(len(payload), frames * height * width * _RGB)
    return np.frombuffer(payload, np.uint8).reshape(frames, height, width, _RGB), first_frame


def pack_audio(samples: NDArray[np.float32], rate: int) -> tuple[bytes, memoryview]:
    """Return header and payload of `samples`, float32 (channels, n), C-contiguous, at `rate` hertz."""
    assert samples.dtype == np.float32, "sound is float32"
    channels, _ = samples.shape
    little = samples if sys.byteorder == "little" else samples.astype("<f4")
    return _pack_header(_SOUND_MAGIC, (channels, rate, 0, 0), samples.nbytes), _view(little)


def unpack_audio(chunk: Buffer) -> tuple[NDArray[np.float32], int]:
    """Return sound, float32 (channels, n), as a view of `chunk`, and its rate in hertz. Raises `ChunkInvalid`."""
    (channels, rate, *rest), payload = _unpack_header(_SOUND_MAGIC, chunk)
    if not 1 <= channels <= MAX_CHANNELS or rate == 0 or any(rest):
        raise ChunkInvalid(f"{channels} channels at {rate} Hz, reserved {rest}")
    samples = len(payload) // (channels * _FLOAT_BYTES)
    _must_match(len(payload), samples * channels * _FLOAT_BYTES)
    return np.frombuffer(payload, "<f4").reshape(channels, samples), rate


def _pack_header(magic: bytes, numbers: tuple[int, int, int, int], payload_bytes: int) -> bytes:
    assert 0 < payload_bytes <= MAX_CHUNK_BYTES, "a chunk is neither empty nor larger than decode's ring"
    assert all(0 <= number <= _MAX_UINT32 for number in numbers), "numbers of the header fit in 32 bits"
    return _HEADER.pack(magic, *numbers, payload_bytes)


def _view(array: NDArray[np.uint8] | NDArray[np.float32]) -> memoryview:
    assert array.flags.c_contiguous, "a payload is written as it lies in memory"
    return array.data.cast("B")


def _unpack_header(magic: bytes, chunk: Buffer) -> tuple[tuple[int, int, int, int], memoryview]:
    view = memoryview(chunk).cast("B")
    if len(view) < HEADER_BYTES:
        raise ChunkInvalid(f"{len(view)} bytes hold no header")
    found, first, second, third, fourth, payload_bytes = _HEADER.unpack_from(view)
    if found != magic:
        raise ChunkInvalid(f"magic is {found!r}, not {magic!r}")
    payload = view[HEADER_BYTES:]
    if not 0 < payload_bytes <= MAX_CHUNK_BYTES:
        raise ChunkInvalid(f"payload of {payload_bytes} bytes is not between 1 and {MAX_CHUNK_BYTES}")
    _must_match(len(payload), payload_bytes)
    return (first, second, third, fourth), payload


def _must_match(received_bytes: int, claimed_bytes: int) -> None:
    if received_bytes != claimed_bytes:
        raise ChunkInvalid(f"payload has {received_bytes} bytes, the header claims {claimed_bytes}")
