"""Uploading and downloading with proof, blocking: for threads."""

import hashlib
import threading
from collections.abc import Callable

from minio.commonconfig import CopySource

from vitascope.adapters.s3.client import S3Client, Stopped
from vitascope.adapters.s3.parts import PartReader
from vitascope.adapters.s3.reading import read_pieces
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.jobs import ObjectRef


def upload(client: S3Client, key: str, reader: PartReader, *, size: int, content_type: str) -> ObjectRef:
    """Store what the reader gives, and make sure that it is there.

    The server answers with the MD5 of what it took (of each part, for several), so a body that lost its tail on the
    way is found out. A server whose ETag is something else (encryption at rest) is read back instead.

    Raises:
        VitascopeError: `object_corrupt`, what is stored is not what was sent.
    """
    result = client.minio.put_object(
        client.bucket,
        key,
        reader,
        size,
        content_type,
        part_size=reader.part_bytes,
        num_parallel_uploads=1,  # one part in memory at a time
    )
    ref = ObjectRef(key=key, bytes=reader.length, sha256=reader.sha256)
    if result.etag != reader.etag:
        download(client, key, lambda _: None, reader.stop, expected=ref)
    return ref


def download(
    client: S3Client,
    key: str,
    sink: Callable[[bytes], object],
    stop: threading.Event,
    *,
    expected: ObjectRef | None,
) -> None:
    """Give the object to `sink`, piece by piece.

    Raises:
        VitascopeError: `object_corrupt`, length or checksum are not the expected ones; all has been given by then.
        Stopped: the caller has been cancelled.
    """
    digest, length = hashlib.sha256(), 0
    for piece in read_pieces(client, key):
        if stop.is_set():
            raise Stopped
        digest.update(piece)
        length += len(piece)
        sink(piece)
    if expected is not None and (length, digest.hexdigest()) != (expected.bytes, expected.sha256):
        detail = f"Object {key} has {length} bytes where {expected.bytes} were stored, or another checksum."
        raise VitascopeError(FailureCode.OBJECT_CORRUPT, detail)


def copy_object(client: S3Client, ref: ObjectRef, key: str) -> None:
    """Copy inside the store, and make sure that the copy is as long as the original should be.

    Raises:
        VitascopeError: `object_missing`; `object_corrupt`, it is not, and has been removed again.
    """
    assert key != ref.key, "S3 refuses to copy an object onto itself"
    client.minio.copy_object(client.bucket, key, CopySource(client.bucket, ref.key))
    length = int(client.minio.stat_object(client.bucket, key).size)
    if length != ref.bytes:
        client.minio.remove_object(client.bucket, key)
        detail = f"The copy of {ref.key} has {length} bytes where {ref.bytes} were stored."
        raise VitascopeError(FailureCode.OBJECT_CORRUPT, detail)
