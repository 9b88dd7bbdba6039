"""An answer's body, never more of it than is allowed."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import BinaryIO

import httpcore

from vitascope.contracts.failures import FailureCode, VitascopeError

BLOCK_BYTES = 1024 * 1024
"""Written to the file at a time."""


async def read_into_file(response: httpcore.Response, path: Path, max_bytes: int) -> int:
    """The body as a new file; how many bytes there are. No file is left after a failure.

    Raises:
        VitascopeError: `media_too_large`, `fetch_failed`.
    """
    file = await asyncio.to_thread(path.open, "xb")
    try:
        return await _write(response, file, max_bytes)
    except BaseException:
        await asyncio.to_thread(path.unlink)
        raise
    finally:
        file.close()


async def _write(response: httpcore.Response, file: BinaryIO, max_bytes: int) -> int:
    count, block = 0, bytearray()
    async for piece in read_bounded(response, max_bytes):
        count += len(piece)
        block += piece
        if len(block) >= BLOCK_BYTES:
            await asyncio.to_thread(file.write, bytes(block))
            block.clear()
    await asyncio.to_thread(file.write, bytes(block))
    await asyncio.to_thread(file.flush)
    return count


async def read_into_memory(response: httpcore.Response, max_bytes: int) -> bytes:
    """The body.

    Raises:
        VitascopeError: `media_too_large`, `fetch_failed`.
    """
    return b"".join([piece async for piece in read_bounded(response, max_bytes)])


async def read_bounded(response: httpcore.Response, max_bytes: int) -> AsyncIterator[bytes]:
    """The body in pieces, refused as soon as it is known to be longer than it may be.

    Raises:
        VitascopeError: `media_too_large`; `fetch_failed`, it is compressed, which nobody asked for.
    """
    headers = {name.lower(): value.decode("latin-1") for name, value in response.headers}
    if headers.get(b"content-encoding", "identity").strip().lower() != "identity":
        raise VitascopeError(FailureCode.FETCH_FAILED, "It answered with a Content-Encoding that was not asked for.")
    declared = headers.get(b"content-length", "")
    if declared.isascii() and declared.isdigit() and int(declared[:20]) > max_bytes:
        raise _too_large(max_bytes)
    count = 0
    async for piece in response.aiter_stream():
        count += len(piece)
        if count > max_bytes:
            raise _too_large(max_bytes)
        yield piece


def _too_large(max_bytes: int) -> VitascopeError:
    return VitascopeError(FailureCode.MEDIA_TOO_LARGE, f"The limit is {max_bytes} bytes.")
