"""The object store in memory."""

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

from vitascope.adapters.limits import PIECE_BYTES, SIGN_MAX_S
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.jobs import ObjectRef
from vitascope.runtime.ports import Clock, ObjectEntry, SystemClock, UnfinishedUpload

UNTYPED = "application/octet-stream"


class MemoryObjectStore:
    """Objects as bytes; see `runtime.ports.ObjectStore`.

    Attributes:
        objects: what is stored, by key; a test may damage it.
        modified: when each was put, by the store's clock; what a test laid there otherwise is as old as the store.
        uploads: unfinished uploads; there are only those that a test puts here.
        is_away: while true every call raises `store_unavailable`.
        is_full: while true every put raises `store_full`.
    """

    def __init__(self, public_endpoint: str = "http://objects.invalid", *, clock: Clock | None = None) -> None:
        """Start empty; `clock` dates the objects, the machine's if absent."""
        self._public_endpoint = public_endpoint
        self._clock = clock or SystemClock()
        self._born = self._clock.now()
        self.modified: dict[str, datetime] = {}
        self.uploads: list[UnfinishedUpload] = []
        self.objects: dict[str, bytes] = {}
        self.content_types: dict[str, str] = {}
        self.is_away = False
        self.is_full = False

    async def put(self, key: str, content: bytes | bytearray | memoryview, content_type: str) -> ObjectRef:
        """Store bytes."""
        self._check()
        stored = bytes(content)
        self._store(key, stored, content_type)
        return ObjectRef(key=key, bytes=len(stored), sha256=hashlib.sha256(stored).hexdigest())

    async def put_file(self, key: str, path: Path, content_type: str) -> ObjectRef:
        """Store a file."""
        return await self.put(key, await asyncio.to_thread(path.read_bytes), content_type)

    async def get(self, ref: ObjectRef | str) -> bytes:
        """The whole object, verified if a reference says what it should be."""
        self._check()
        key = ref if isinstance(ref, str) else ref.key
        content = self.objects.get(key)
        if content is None:
            raise VitascopeError(FailureCode.OBJECT_MISSING, f"There is no object {key}.")
        if isinstance(ref, ObjectRef) and hashlib.sha256(content).hexdigest() != ref.sha256:
            raise VitascopeError(FailureCode.OBJECT_CORRUPT, f"Object {key} is not what was stored.")
        return content

    async def get_file(self, ref: ObjectRef, path: Path) -> None:
        """The whole object as a file."""
        content = await self.get(ref)
        await asyncio.to_thread(path.write_bytes, content)

    async def stream(self, key: str, *, offset: int = 0, length: int | None = None) -> AsyncIterator[bytes]:
        """A range of the object in pieces."""
        content = await self.get(key)
        end = len(content) if length is None else min(offset + length, len(content))
        for start in range(offset, end, PIECE_BYTES):
            yield content[start : min(start + PIECE_BYTES, end)]

    async def size(self, key: str) -> int | None:
        """Length in bytes, or None."""
        self._check()
        return len(self.objects[key]) if key in self.objects else None

    async def list(self, prefix: str) -> Sequence[str]:
        """All keys under a prefix, sorted."""
        self._check()
        return sorted(key for key in self.objects if key.startswith(prefix))

    async def remove(self, keys: Sequence[str]) -> None:
        """Remove objects."""
        self._check()
        for key in keys:
            self.objects.pop(key, None)
            self.content_types.pop(key, None)
            self.modified.pop(key, None)

    async def scan(self, prefix: str) -> AsyncIterator[ObjectEntry]:
        """All objects under a prefix in the order of their keys."""
        for key in await self.list(prefix):
            if (content := self.objects.get(key)) is not None:  # removed while the reader was at the ones before
                yield ObjectEntry(key, len(content), self.modified.get(key, self._born))

    async def copy(self, ref: ObjectRef, key: str) -> ObjectRef:
        """A copy under another key."""
        self._check()
        content = self.objects.get(ref.key)
        if content is None:
            raise VitascopeError(FailureCode.OBJECT_MISSING, f"There is no object {ref.key}.")
        if len(content) != ref.bytes:
            raise VitascopeError(FailureCode.OBJECT_CORRUPT, f"Object {ref.key} has not the length that was stored.")
        self._store(key, content, self.content_types.get(ref.key, UNTYPED))
        return ref.model_copy(update={"key": key})

    async def list_uploads(self) -> Sequence[UnfinishedUpload]:
        """What a test has put there."""
        self._check()
        return tuple(self.uploads)

    async def abort_upload(self, upload: UnfinishedUpload) -> None:
        """End one."""
        self._check()
        if upload in self.uploads:
            self.uploads.remove(upload)

    async def sign(self, key: str, expires_s: int) -> str:
        """A URL of the form that a real store gives; nothing answers it."""
        assert 1 <= expires_s <= SIGN_MAX_S, "the life of a signed URL is checked in the settings"
        return f"{self._public_endpoint}/{quote(key)}?expires={int(time.time()) + expires_s}"

    def _store(self, key: str, content: bytes, content_type: str) -> None:
        if self.is_full:
            raise VitascopeError(FailureCode.STORE_FULL, "The store in memory is told to be full.")
        self.objects[key], self.content_types[key] = content, content_type
        self.modified[key] = self._clock.now()

    def _check(self) -> None:
        if self.is_away:
            raise VitascopeError(FailureCode.STORE_UNAVAILABLE, "The store in memory is told to be away.")
