"""What every object store promises."""

import asyncio
import hashlib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from contract.waiting import names_in
from vitascope.adapters.memory import MemoryObjectStore
from vitascope.adapters.s3 import S3ObjectStore
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.jobs import ObjectRef
from vitascope.runtime.ports import ObjectStore, UnfinishedUpload

MIB = 1024 * 1024
CLOCK_STEP = timedelta(seconds=1)  # S3 tells times in whole seconds
CONTENT = bytes(range(256)) * 10_000  # 2.56 MB, not a multiple of a piece


async def raises(code: FailureCode, call: object) -> VitascopeError:
    with pytest.raises(VitascopeError) as caught:
        await call  # type: ignore[misc]  # any awaitable
    assert code is caught.value.code
    return caught.value


@pytest.mark.parametrize(
    "content",
    [b"", b"x", CONTENT, bytearray(CONTENT), memoryview(CONTENT)[1:-1]],
    ids=["empty", "one byte", "bytes", "bytearray", "memoryview"],
)
async def test_put_content_comes_back(store: ObjectStore, unique: str, content: bytes | bytearray | memoryview) -> None:
    """The reference says length and checksum, and the content is the same."""
    key = f"inputs/{unique}/a.bin"
    ref = await store.put(key, content, "application/octet-stream")
    assert ObjectRef(key=key, bytes=len(content), sha256=hashlib.sha256(content).hexdigest()) == ref
    assert bytes(content) == await store.get(ref)
    assert bytes(content) == await store.get(key)
    assert len(content) == await store.size(key)


async def test_put_again_replaces(store: ObjectStore, unique: str) -> None:
    """A key holds what was put last; the older reference no longer fits."""
    key = f"inputs/{unique}/a.bin"
    first = await store.put(key, b"first", "text/plain")
    second = await store.put(key, b"2nd", "text/plain")
    assert b"2nd" == await store.get(second)
    await raises(FailureCode.OBJECT_CORRUPT, store.get(first))


async def test_wrong_checksum_is_corrupt(store: ObjectStore, unique: str, tmp_path: Path) -> None:
    """Equal length is not enough, and no file is left."""
    ref = await store.put(f"inputs/{unique}/a.bin", b"content", "text/plain")
    wrong = ref.model_copy(update={"sha256": "0" * 64})
    await raises(FailureCode.OBJECT_CORRUPT, store.get(wrong))
    await raises(FailureCode.OBJECT_CORRUPT, store.get_file(wrong, tmp_path / "a.bin"))
    assert [] == names_in(tmp_path)


async def test_file_round_trip(store: ObjectStore, unique: str, tmp_path: Path) -> None:
    """A file goes in and comes out equal; nothing else is left beside it."""
    source = tmp_path / "in.bin"
    source.write_bytes(CONTENT)
    ref = await store.put_file(f"outputs/{unique}/1/video.mp4", source, "video/mp4")
    out = tmp_path / "out"
    out.mkdir()
    await store.get_file(ref, out / "video.mp4")
    assert ["video.mp4"] == names_in(out)
    assert CONTENT == (out / "video.mp4").read_bytes()


async def test_missing_object(store: ObjectStore, unique: str, tmp_path: Path) -> None:
    """Each way to read says that it is missing; its size is None; removing it does no harm."""
    key = f"inputs/{unique}/none"
    ref = ObjectRef(key=key, bytes=1, sha256="0" * 64)
    await raises(FailureCode.OBJECT_MISSING, store.get(key))
    await raises(FailureCode.OBJECT_MISSING, store.get(ref))
    await raises(FailureCode.OBJECT_MISSING, store.get_file(ref, tmp_path / "none"))
    await raises(FailureCode.OBJECT_MISSING, anext(store.stream(key)))
    assert await store.size(key) is None
    await store.remove([key])


@pytest.mark.parametrize(
    ("offset", "length"),
    [
        (0, None),
        (0, 10),
        (MIB - 1, 2),
        (5, MIB + 7),
        (len(CONTENT) - 3, None),
        (len(CONTENT) - 3, 100),
        (len(CONTENT), None),
        (len(CONTENT) + 5, 5),
        (7, 0),
    ],
    ids=["all", "head", "across a piece", "long", "tail", "beyond", "at the end", "outside", "nothing"],
)
async def test_range_pieces_glue_together(store: ObjectStore, unique: str, offset: int, length: int | None) -> None:
    """The pieces of a range are its bytes, in order, each at most 1 MiB."""
    key = f"outputs/{unique}/range"
    await store.put(key, CONTENT, "video/mp4")
    pieces = [piece async for piece in store.stream(key, offset=offset, length=length)]
    end = None if length is None else offset + length
    assert CONTENT[offset:end] == b"".join(pieces)
    assert all(0 < len(piece) <= MIB for piece in pieces)


async def test_stream_can_be_left(store: ObjectStore, unique: str) -> None:
    """A reader that goes away in the middle harms nobody: many can do so."""
    key = f"outputs/{unique}/left"
    await store.put(key, CONTENT, "video/mp4")
    for _ in range(20):
        stream = store.stream(key)
        assert CONTENT[:MIB] == await anext(stream)
        await stream.aclose()  # type: ignore[attr-defined]  # an async generator
    assert CONTENT == await store.get(key)


async def test_list_is_sorted_and_by_prefix(store: ObjectStore, unique: str) -> None:
    """Keys under the prefix, at any depth, and no others."""
    keys = [f"frames/{unique}/job/1/{index:06d}.rgb" for index in range(12)]
    for key in reversed(keys):
        await store.put(key, b"x", "application/octet-stream")
    await store.put(f"frames/{unique}/job2/1/000000.rgb", b"x", "application/octet-stream")
    assert keys == await store.list(f"frames/{unique}/job/")
    assert [] == await store.list(f"frames/{unique}/none/")


async def test_removed_objects_are_gone(store: ObjectStore, unique: str) -> None:
    """All of the list, present or not; the others stay."""
    keys = [f"frames/{unique}/job/{index}" for index in range(3)]
    for key in keys:
        await store.put(key, b"x", "application/octet-stream")
    await store.remove([keys[0], f"frames/{unique}/none", keys[1]])
    assert [keys[2]] == await store.list(f"frames/{unique}/")
    await store.remove([])


async def test_scan_gives_every_object_once_with_length_and_time(store: ObjectStore, unique: str) -> None:
    """Lengths are right, times are between before and after; what lies in one folder comes together."""
    before = datetime.now(UTC) - CLOCK_STEP
    lengths = {
        f"frames/{unique}{tail}": number for number, tail in enumerate(["/a-b/1", "/a/1", "/a.b/1", "/a/0", "/b"])
    }
    for key, length in lengths.items():
        await store.put(key, b"x" * length, "application/octet-stream")
    await store.put(f"frames/{unique}-other", b"x", "application/octet-stream")
    entries = [entry async for entry in store.scan(f"frames/{unique}/")]
    assert lengths == {entry.key: entry.bytes for entry in entries}
    assert len(lengths) == len(entries)
    assert all(before <= entry.modified <= datetime.now(UTC) + CLOCK_STEP for entry in entries)
    places = [number for number, entry in enumerate(entries) if entry.key.startswith(f"frames/{unique}/a/")]
    assert 1 == places[1] - places[0]
    assert [] == [entry async for entry in store.scan(f"frames/{unique}/none/")]


async def test_scan_survives_removals(store: ObjectStore, unique: str) -> None:
    """Whoever removes what he is shown is shown the rest all the same."""
    keys = {f"frames/{unique}/{job}/{index}" for job in range(4) for index in range(3)}
    for key in keys:
        await store.put(key, b"x", "application/octet-stream")
    seen = set()
    async for entry in store.scan(f"frames/{unique}/"):
        seen.add(entry.key)
        await store.remove([entry.key])
    assert keys == seen
    assert [] == await store.list(f"frames/{unique}/")


@pytest.mark.parametrize("content", [b"", b"x", CONTENT], ids=["empty", "one byte", "more"])
async def test_copy_is_equal_and_stays_when_the_first_goes(store: ObjectStore, unique: str, content: bytes) -> None:
    """A copy is an object of its own; its reference says the same but for the key."""
    ref = await store.put(f"latents/{unique}/a/1", content, "application/octet-stream")
    copy = await store.copy(ref, f"latents/{unique}/b/1")
    assert ref.model_copy(update={"key": f"latents/{unique}/b/1"}) == copy
    assert content == await store.get(ref)
    await store.remove([ref.key])
    assert content == await store.get(copy)


async def test_copy_replaces_what_is_there(store: ObjectStore, unique: str) -> None:
    """Copying twice is copying once."""
    ref = await store.put(f"latents/{unique}/a", b"content", "x/y")
    await store.put(f"latents/{unique}/b", b"something else", "x/y")
    copies = [await store.copy(ref, f"latents/{unique}/b") for _ in range(2)]
    assert [b"content"] * 2 == [await store.get(copy) for copy in copies]


async def test_copy_of_what_is_not_there(store: ObjectStore, unique: str) -> None:
    """It is missing, or it is not what it should be; nothing is made."""
    ref = await store.put(f"latents/{unique}/a", b"content", "x/y")
    missing = ref.model_copy(update={"key": f"latents/{unique}/none"})
    longer = ref.model_copy(update={"bytes": ref.bytes + 1})
    await raises(FailureCode.OBJECT_MISSING, store.copy(missing, f"latents/{unique}/b"))
    await raises(FailureCode.OBJECT_CORRUPT, store.copy(longer, f"latents/{unique}/b"))
    assert [ref.key] == await store.list(f"latents/{unique}/")


async def test_aborted_upload_is_gone(store: ObjectStore, unique: str) -> None:
    """Each unfinished upload is listed, also two of one key, until it is ended; ending one twice does no harm."""
    before = datetime.now(UTC) - CLOCK_STEP
    keys = [f"latents/{unique}/a", f"latents/{unique}/a", f"outputs/{unique}/ä + b"]
    for key in keys:
        await begin_upload(store, key)
    uploads = await uploads_of(store, unique)
    assert sorted(keys) == sorted(upload.key for upload in uploads)
    assert all(before <= upload.begun <= datetime.now(UTC) + CLOCK_STEP for upload in uploads)
    await store.abort_upload(uploads[0])
    await store.abort_upload(uploads[0])
    assert sorted(uploads[1:], key=repr) == sorted(await uploads_of(store, unique), key=repr)
    assert [] == await store.list(f"latents/{unique}/")


async def begin_upload(store: ObjectStore, key: str) -> None:
    """As a process does that dies before it has sent all parts."""
    if isinstance(store, MemoryObjectStore):
        store.uploads.append(UnfinishedUpload(key, uuid4().hex, datetime.now(UTC)))
        return
    assert isinstance(store, S3ObjectStore)
    minio, bucket = store._client.minio, store._client.bucket
    async with httpx.AsyncClient() as client:
        begin = minio.get_presigned_url("POST", bucket, key, extra_query_params={"uploads": ""})
        answer = (await client.post(begin)).raise_for_status()
        upload = answer.text.partition("<UploadId>")[2].partition("</UploadId>")[0]
        query = {"partNumber": "1", "uploadId": upload}
        put = minio.get_presigned_url("PUT", bucket, key, extra_query_params=query)
        (await client.put(put, content=b"part")).raise_for_status()


async def uploads_of(store: ObjectStore, unique: str) -> list[UnfinishedUpload]:
    return [upload for upload in await store.list_uploads() if f"/{unique}/" in upload.key]


async def test_writers_at_once_leave_one_whole_object(store: ObjectStore, unique: str) -> None:
    """Of several puts under one key one is there, whole."""
    contents = [bytes([number]) * 300_000 for number in range(8)]
    key = f"inputs/{unique}/race"
    await asyncio.gather(*(store.put(key, content, "application/octet-stream") for content in contents))
    assert await store.get(key) in contents


async def test_signed_url_names_the_object(store: ObjectStore, unique: str) -> None:
    """It is an address of the object, with an end."""
    url = await store.sign(f"outputs/{unique}/1/video.mp4", 60)
    assert url.startswith("http")
    assert f"outputs/{unique}/1/video.mp4?" in url
