"""Reading what is to be stored, in parts, with the checksums that prove that it arrived."""

import hashlib
import threading
from typing import Protocol

from vitascope.adapters.s3.client import Stopped


class Source(Protocol):
    """Where the bytes come from."""

    def read(self, size: int, /) -> bytes:
        """The next bytes, at most that many; none at the end."""
        ...


class MemorySource:
    """A buffer as a source; nothing but the part that is read is copied."""

    def __init__(self, content: bytes | bytearray | memoryview) -> None:
        self._view = memoryview(content).cast("B")
        self._position = 0

    def read(self, size: int, /) -> bytes:
        """The next bytes."""
        piece = bytes(self._view[self._position : self._position + size])
        self._position += len(piece)
        return piece


class PartReader:
    """A source that computes, while it is read, the object's SHA-256 and the ETag that S3 must answer with.

    Attributes:
        part_bytes: the size of every part but the last.
        stop: reading ends with `Stopped` once it is set.
        length: bytes read so far.
    """

    def __init__(self, source: Source, part_bytes: int, stop: threading.Event) -> None:
        self._source, self.part_bytes, self.stop = source, part_bytes, stop
        self._whole = hashlib.sha256()
        self._part = hashlib.md5(usedforsecurity=False)
        self._done: list[bytes] = []
        self._part_length = 0
        self.length = 0

    def read(self, size: int) -> bytes:
        """The next bytes, never across the end of a part."""
        if self.stop.is_set():
            raise Stopped
        if self._part_length == self.part_bytes:
            self._done.append(self._part.digest())
            self._part, self._part_length = hashlib.md5(usedforsecurity=False), 0
        piece = self._source.read(min(size, self.part_bytes - self._part_length))
        self._whole.update(piece)
        self._part.update(piece)
        self._part_length += len(piece)
        self.length += len(piece)
        return piece

    @property
    def sha256(self) -> str:
        """Of all that was read, in hexadecimal."""
        return self._whole.hexdigest()

    @property
    def etag(self) -> str:
        """MD5 of the object; of more than one part, MD5 of the parts' MD5s, a dash and their number."""
        if not self._done:
            return self._part.hexdigest()
        digests = [*self._done, self._part.digest()]
        return f"{hashlib.md5(b''.join(digests), usedforsecurity=False).hexdigest()}-{len(digests)}"
