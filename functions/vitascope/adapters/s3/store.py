"""Objects on an S3 server."""

import contextlib
import itertools
import os
import threading
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, timedelta
from pathlib import Path
from uuid import uuid4

from minio.deleteobjects import DeleteObject

from vitascope.adapters.limits import SIGN_MAX_S
from vitascope.adapters.s3 import uploads
from vitascope.adapters.s3.client import S3Client
from vitascope.adapters.s3.parts import MemorySource, PartReader
from vitascope.adapters.s3.reading import read_pieces
from vitascope.adapters.s3.transfer import copy_object, download, upload
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.jobs import ObjectRef
from vitascope.contracts.objects import ObjectClass
from vitascope.runtime.ports import ObjectEntry, UnfinishedUpload

PART_BYTES = 8 * 1024 * 1024
"""Of a file: what it costs in memory is a few parts, whatever its size (S3 allows 10,000 parts: 80 GiB)."""
SINGLE_MAX_BYTES = 64 * 1024 * 1024
"""Content that is in memory already goes in one request up to here: parts would only cost round trips."""

PAGE = 1000
"""Objects of a listing that are in memory at once: S3's own page."""


class S3ObjectStore:
    """See `runtime.ports.ObjectStore`. A cancelled call leaves nothing half-done: at most it finishes."""

    def __init__(self, client: S3Client) -> None:
        self._client = client

    async def put(self, key: str, content: bytes | bytearray | memoryview, content_type: str) -> ObjectRef:
        """Store bytes; they must not change meanwhile."""

        def call(stop: threading.Event) -> ObjectRef:
            reader = PartReader(MemorySource(content), SINGLE_MAX_BYTES, stop)
            return upload(self._client, key, reader, size=memoryview(content).nbytes, content_type=content_type)

        return await self._client.run(key, call)

    async def put_file(self, key: str, path: Path, content_type: str) -> ObjectRef:
        """Store a file, in parts."""

        def call(stop: threading.Event) -> ObjectRef:
            with path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                return upload(
                    self._client, key, PartReader(file, PART_BYTES, stop), size=size, content_type=content_type
                )

        return await self._client.run(key, call)

    async def get(self, ref: ObjectRef | str) -> bytes:
        """The whole object, verified if a reference says what it should be."""
        key, expected = (ref, None) if isinstance(ref, str) else (ref.key, ref)

        def call(stop: threading.Event) -> bytes:
            pieces: list[bytes] = []
            download(self._client, key, pieces.append, stop, expected=expected)
            return b"".join(pieces)

        return await self._client.run(key, call)

    async def get_file(self, ref: ObjectRef, path: Path) -> None:
        """The whole object as a file: written beside it, verified, then renamed."""

        def call(stop: threading.Event) -> None:
            unfinished = path.with_name(f".{path.name}.{uuid4().hex}")
            try:
                with unfinished.open("xb") as file:
                    download(self._client, ref.key, file.write, stop, expected=ref)
                unfinished.replace(path)
            finally:
                unfinished.unlink(missing_ok=True)

        await self._client.run(ref.key, call)

    async def stream(self, key: str, *, offset: int = 0, length: int | None = None) -> AsyncIterator[bytes]:
        """A range of the object in pieces, each read when it is asked for."""
        pieces = read_pieces(self._client, key, offset, length)
        try:
            while (piece := await self._client.run(key, lambda _: next(pieces, None))) is not None:
                yield piece
        finally:
            with contextlib.suppress(ValueError):  # cancelled inside a read: that thread closes it when it returns
                await self._client.run(key, lambda _: pieces.close())

    async def size(self, key: str) -> int | None:
        """Length in bytes, or None."""

        def call(_: threading.Event) -> int:
            return int(self._client.minio.stat_object(self._client.bucket, key).size)

        try:
            return await self._client.run(key, call)
        except VitascopeError as error:
            if error.code is FailureCode.OBJECT_MISSING:
                return None
            raise

    async def list(self, prefix: str) -> Sequence[str]:
        """All keys under a prefix, sorted."""

        def call(_: threading.Event) -> list[str]:
            found = self._client.minio.list_objects(self._client.bucket, prefix=prefix, recursive=True)
            return sorted(str(entry.object_name) for entry in found)

        return await self._client.run(prefix, call)

    async def remove(self, keys: Sequence[str]) -> None:
        """Remove objects, a thousand in a request."""

        def call(_: threading.Event) -> None:
            unwanted = [DeleteObject(key) for key in keys]
            for error in self._client.minio.remove_objects(self._client.bucket, unwanted):
                if error.code != "NoSuchKey":
                    detail = f"{self._client.endpoint} answered {error.code} when {error.name} was to be removed."
                    raise VitascopeError(FailureCode.STORE_UNAVAILABLE, detail)

        await self._client.run(f"{len(keys)} objects", call)

    async def scan(self, prefix: str) -> AsyncIterator[ObjectEntry]:
        """All objects under a prefix, a page in memory at a time; what comes and goes meanwhile may be missed."""
        found = self._client.minio.list_objects(self._client.bucket, prefix=prefix, recursive=True)

        def call(_: threading.Event) -> list[ObjectEntry]:
            return [
                ObjectEntry(str(entry.object_name), int(entry.size), entry.last_modified.astimezone(UTC))
                for entry in itertools.islice(found, PAGE)
            ]

        while page := await self._client.run(prefix, call):
            for entry in page:
                yield entry

    async def copy(self, ref: ObjectRef, key: str) -> ObjectRef:
        """A copy under another key; the content never comes here, and its type stays."""

        def call(_: threading.Event) -> ObjectRef:
            copy_object(self._client, ref, key)
            return ref.model_copy(update={"key": key})

        return await self._client.run(ref.key, call)

    async def list_uploads(self) -> Sequence[UnfinishedUpload]:
        """Unfinished uploads of our classes of objects; others in the bucket are not ours to end."""

        def call(_: threading.Event) -> list[UnfinishedUpload]:
            return [upload for kind in ObjectClass for upload in uploads.list_uploads(self._client, kind)]

        return await self._client.run(f"unfinished uploads of {self._client.bucket}", call)

    async def abort_upload(self, upload: UnfinishedUpload) -> None:
        """End one; its parts are removed."""
        await self._client.run(upload.key, lambda _: uploads.abort_upload(self._client, upload))

    async def sign(self, key: str, expires_s: int) -> str:
        """A URL for the public endpoint; computed here, without asking anybody."""
        assert 1 <= expires_s <= SIGN_MAX_S, "the life of a signed URL is checked in the settings"
        signer, bucket = self._client.signer, self._client.bucket
        return str(signer.presigned_get_object(bucket, key, expires=timedelta(seconds=expires_s)))
