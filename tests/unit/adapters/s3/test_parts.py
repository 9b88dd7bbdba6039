"""The checksums of an upload."""

import hashlib
import io
import threading

import pytest

from vitascope.adapters.s3.client import Stopped
from vitascope.adapters.s3.parts import MemorySource, PartReader

CONTENT = bytes(range(256)) * 4


def read_all(reader: PartReader, size: int) -> bytes:
    return b"".join(iter(lambda: reader.read(size), b""))


@pytest.mark.parametrize("size", [1, 7, 100, 5000], ids=str)
def test_reader_passes_everything_on(size: int) -> None:
    """In whatever pieces it is read, the content and its SHA-256 are right."""
    reader = PartReader(io.BytesIO(CONTENT), 300, threading.Event())
    assert CONTENT == read_all(reader, size)
    assert (len(CONTENT), hashlib.sha256(CONTENT).hexdigest()) == (reader.length, reader.sha256)


def test_etag_of_one_part_is_its_md5() -> None:
    """As S3 answers a single PUT, also for one that fills the part exactly."""
    for part_bytes in (len(CONTENT), len(CONTENT) + 1):
        reader = PartReader(io.BytesIO(CONTENT), part_bytes, threading.Event())
        reader.read(part_bytes)
        assert hashlib.md5(CONTENT).hexdigest() == reader.etag


def test_etag_of_parts_is_the_md5_of_their_md5s() -> None:
    """As S3 answers when a multipart upload is completed."""
    reader = PartReader(io.BytesIO(CONTENT), 400, threading.Event())
    for size in (400, 400, 224):
        reader.read(size)
    digests = b"".join(hashlib.md5(CONTENT[start : start + 400]).digest() for start in (0, 400, 800))
    assert f"{hashlib.md5(digests).hexdigest()}-3" == reader.etag


def test_stopped_reader_reads_no_more() -> None:
    """The upload of a cancelled caller ends at the next read."""
    stop = threading.Event()
    reader = PartReader(io.BytesIO(CONTENT), 400, stop)
    reader.read(10)
    stop.set()
    with pytest.raises(Stopped):
        reader.read(10)


def test_memory_source_takes_any_buffer() -> None:
    """Also one whose items are larger than a byte."""
    view = memoryview(CONTENT).cast("I")
    source = MemorySource(view)
    assert CONTENT == source.read(1000) + source.read(1000) + source.read(1000)
