"""What only the S3 adapter promises: proof of what is stored, bounded memory, signed URLs, a bucket with rules."""

import asyncio
import hashlib
import os
import time
import tracemalloc
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from contract.careless_s3 import careless_s3
from contract.lying_relay import lying_relay
from contract.real import BUCKET, RETENTION, s3_client
from contract.test_objects import CONTENT, MIB, begin_upload, raises, uploads_of
from contract.waiting import names_in, until, until_true
from servers import RunningS3
from vitascope.adapters.s3 import S3Client, S3ObjectStore, ensure_bucket
from vitascope.adapters.s3 import store as store_module
from vitascope.adapters.s3 import uploads as uploads_module
from vitascope.adapters.s3.bucket import plan_rules
from vitascope.contracts.expiry import Retention
from vitascope.contracts.failures import FailureCode, VitascopeError

FILE_BYTES = 20 * MIB + 12_345


def write_file(path: Path, size: int = FILE_BYTES) -> str:
    """A file whose parts all differ; returns its SHA-256."""
    digest = hashlib.sha256()
    with path.open("wb") as file:
        for number in range(0, size, MIB):
            piece = ((number + 1).to_bytes(8, "big") * (MIB // 8))[: size - number]
            digest.update(piece)
            file.write(piece)
    return digest.hexdigest()


async def test_multipart_file_with_bounded_memory(real_store: S3ObjectStore, unique: str, tmp_path: Path) -> None:
    """A file of several parts arrives whole; at no time is it in memory as a whole, on neither way."""
    path, back, size = tmp_path / "in.bin", tmp_path / "out.bin", 64 * MIB + 1
    sha256 = write_file(path, size)
    key = f"latents/{unique}/big"
    tracemalloc.start()
    try:
        ref = await real_store.put_file(key, path, "application/octet-stream")
        up_bytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        await real_store.get_file(ref, back)
        down_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (size, sha256) == (ref.bytes, ref.sha256)
    assert sha256 == hashlib.sha256(back.read_bytes()).hexdigest()
    assert up_bytes < 34 * MIB
    assert down_bytes < 12 * MIB


async def test_stream_of_a_multipart_object_has_bounded_memory(
    real_store: S3ObjectStore, unique: str, tmp_path: Path
) -> None:
    """Pieces are read when they are asked for, across the borders of parts."""
    sha256 = write_file(tmp_path / "in.bin")
    ref = await real_store.put_file(f"outputs/{unique}/big", tmp_path / "in.bin", "video/mp4")
    digest = hashlib.sha256()
    tracemalloc.start()
    try:
        async for piece in real_store.stream(ref.key):
            digest.update(piece)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert sha256 == digest.hexdigest()
    assert peak_bytes < 8 * MIB


SIZES = pytest.mark.parametrize("size", [100_000, FILE_BYTES], ids=["one request", "parts"])


@SIZES
@pytest.mark.parametrize("damage", ["lose_bytes", "zero_bytes"])
async def test_damaged_upload_is_refused(
    s3_server: RunningS3,
    unique: str,
    tmp_path: Path,
    size: int,
    damage: str,
) -> None:
    """Something on the way cuts bodies short, or damages them, and hides it: the put does not succeed."""
    write_file(tmp_path / "in.bin", size)
    async with lying_relay(s3_server.address) as relay:
        setattr(relay, damage, 1000)
        async with s3_client(s3_server, endpoint=f"http://127.0.0.1:{relay.port}") as client:
            store = S3ObjectStore(client)
            with pytest.raises(VitascopeError):
                await store.put_file(f"inputs/{unique}/f", tmp_path / "in.bin", "x/y")
            with pytest.raises(VitascopeError):
                await store.put(f"inputs/{unique}/b", (tmp_path / "in.bin").read_bytes(), "x/y")


@SIZES
async def test_upload_that_the_server_cut_short_is_found_out(unique: str, tmp_path: Path, size: int) -> None:
    """A server that stores less than it got and says that all is well is not believed."""
    write_file(tmp_path / "in.bin", size)
    with careless_s3() as server:
        async with S3Client(server.endpoint, access_key="a", secret_key="b", bucket="bucket") as client:
            store = S3ObjectStore(client)
            server.lose_bytes = 1000
            await raises(FailureCode.OBJECT_CORRUPT, store.put_file(unique, tmp_path / "in.bin", "x/y"))
            await raises(FailureCode.OBJECT_CORRUPT, store.put(unique, (tmp_path / "in.bin").read_bytes(), "x/y"))


@SIZES
async def test_server_with_other_etags_is_read_back(unique: str, tmp_path: Path, size: int) -> None:
    """Where an ETag is no MD5 (encryption at rest) the object itself is the proof."""
    sha256 = write_file(tmp_path / "in.bin", size)
    with careless_s3() as server:
        async with S3Client(server.endpoint, access_key="a", secret_key="b", bucket="bucket") as client:
            server.own_etag = "f" * 32
            ref = await S3ObjectStore(client).put_file(unique, tmp_path / "in.bin", "x/y")
    assert (size, sha256) == (ref.bytes, ref.sha256)
    assert 1 == server.reads


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (507, b"<Error><Code>XMinioStorageFull</Code><Message>full</Message></Error>"),
        (500, b"<Error><Code>InternalError</Code><Message>no free volumes left</Message></Error>"),
        (507, b""),
    ],
    ids=["MinIO", "SeaweedFS", "no words"],
)
async def test_full_store_has_its_own_code(unique: str, status: int, body: bytes) -> None:
    """A full store is not the same as one that is away."""
    with careless_s3() as server:
        async with S3Client(server.endpoint, access_key="a", secret_key="b", bucket="bucket") as client:
            server.refuse = status, body
            await raises(FailureCode.STORE_FULL, S3ObjectStore(client).put(unique, b"x", "x/y"))


async def test_short_hiccup_is_retried(unique: str) -> None:
    """One 503 costs nothing but time."""
    with careless_s3() as server:
        async with S3Client(server.endpoint, access_key="a", secret_key="b", bucket="bucket") as client:
            server.hiccups = 1
            store = S3ObjectStore(client)
            assert b"x" == await store.get(await store.put(unique, b"x", "x/y"))
    assert 0 == server.hiccups


async def test_broken_download_goes_on_where_it_broke(s3_server: RunningS3, unique: str, tmp_path: Path) -> None:
    """Connections that break in the middle of an answer cost nothing but time."""
    write_file(tmp_path / "in.bin")
    content = (tmp_path / "in.bin").read_bytes()
    async with (
        lying_relay(s3_server.address) as relay,
        s3_client(s3_server, endpoint=f"http://127.0.0.1:{relay.port}") as client,
    ):
        store = S3ObjectStore(client)
        ref = await store.put(f"inputs/{unique}/f", content, "application/octet-stream")
        for read in (store.get(ref), _collect(store, ref.key)):
            relay.break_after_bytes, relay.breaks = 5 * MIB, 3
            assert content == await read
            assert 0 == relay.breaks
        relay.breaks = 3
        await store.get_file(ref, tmp_path / "out.bin")
        assert content == (tmp_path / "out.bin").read_bytes()


async def test_download_that_always_breaks_is_an_error(s3_server: RunningS3, unique: str, tmp_path: Path) -> None:
    """It ends, with a code that may be tried again, and leaves no file."""
    async with (
        lying_relay(s3_server.address) as relay,
        s3_client(s3_server, endpoint=f"http://127.0.0.1:{relay.port}") as client,
    ):
        store = S3ObjectStore(client)
        ref = await store.put(f"inputs/{unique}/f", CONTENT, "application/octet-stream")
        relay.break_after_bytes, relay.breaks = 600, 1000
        await raises(FailureCode.STORE_UNAVAILABLE, store.get(ref))
        await raises(FailureCode.STORE_UNAVAILABLE, store.get_file(ref, tmp_path / "out.bin"))
    assert [] == names_in(tmp_path)


async def test_cancelled_download_leaves_no_file(real_store: S3ObjectStore, unique: str, tmp_path: Path) -> None:
    """Cancelling stops the transfer, and what was written is removed."""
    write_file(tmp_path / "in.bin", 64 * MIB)
    ref = await real_store.put_file(f"inputs/{unique}/f", tmp_path / "in.bin", "application/octet-stream")
    out = tmp_path / "out"
    out.mkdir()
    getting = asyncio.create_task(real_store.get_file(ref, out / "f"))
    await until_true(lambda: bool(names_in(out)))
    getting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await getting
    await until_true(lambda: not names_in(out))


async def test_calls_do_not_block_the_loop(real_store: S3ObjectStore, unique: str) -> None:
    """While objects move, the loop turns."""
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    turning = asyncio.create_task(turn())
    ref = await real_store.put(f"inputs/{unique}/f", os.urandom(4 * MIB), "application/octet-stream")
    await real_store.get(ref)
    turning.cancel()
    assert turns > 50


async def test_signed_url_needs_no_credentials(real_store: S3ObjectStore, unique: str) -> None:
    """Anybody who has the URL gets the object, also a range of it; without the signature nobody does."""
    key = f"outputs/{unique}/1/video.mp4"
    await real_store.put(key, CONTENT, "video/mp4")
    url = await real_store.sign(key, 60)
    async with httpx.AsyncClient() as anybody:
        whole = await anybody.get(url)
        assert (200, CONTENT, "video/mp4") == (whole.status_code, whole.content, whole.headers["content-type"])
        ranged = await anybody.get(url, headers={"Range": "bytes=10-19"})
        assert (206, CONTENT[10:20]) == (ranged.status_code, ranged.content)
        assert 403 == (await anybody.get(url.partition("?")[0])).status_code


@pytest.mark.parametrize(
    "tamper",
    [
        lambda url: url.replace("video.mp4", "other.mp4"),
        lambda url: url.replace("X-Amz-Expires=60", "X-Amz-Expires=6000"),
        lambda url: url[:-1] + ("0" if url[-1] != "0" else "1"),
    ],
    ids=["another object", "longer life", "another signature"],
)
async def test_tampered_url_is_refused(real_store: S3ObjectStore, unique: str, tamper) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
    """A change of any part makes the signature wrong."""
    for name in ("video.mp4", "other.mp4"):
        await real_store.put(f"outputs/{unique}/{name}", b"x", "video/mp4")
    url = await real_store.sign(f"outputs/{unique}/video.mp4", 60)
    async with httpx.AsyncClient() as anybody:
        assert 403 == (await anybody.get(tamper(url))).status_code


async def test_expired_url_is_refused(real_store: S3ObjectStore, unique: str) -> None:
    """After its life the URL is worth nothing."""
    await real_store.put(f"outputs/{unique}/v", b"x", "video/mp4")
    url = await real_store.sign(f"outputs/{unique}/v", 1)
    async with httpx.AsyncClient() as anybody:

        async def is_refused() -> bool:
            return (await anybody.get(url)).status_code == 403

        await until(is_refused)


async def test_url_is_signed_for_the_public_endpoint(s3_server: RunningS3, unique: str) -> None:
    """The address in the URL is the public one, signing asks nobody, and the server takes it under that name."""
    async with lying_relay(s3_server.address) as relay:  # here an honest one: the public door
        public = f"http://localhost:{relay.port}"
        async with s3_client(s3_server, public_endpoint=public) as client:
            store = S3ObjectStore(client)
            await store.put(f"outputs/{unique}/v", b"public", "video/mp4")
            url = await store.sign(f"outputs/{unique}/v", 60)
            assert 0 == relay.connections
            assert url.startswith(f"{public}/{BUCKET}/outputs/")
            async with httpx.AsyncClient() as anybody:
                assert b"public" == (await anybody.get(url)).content
            assert 1 == relay.connections


async def test_rules_are_stored_once(s3_server: RunningS3, unique: str) -> None:
    """A second time finds all as it should be; another retention replaces the rules; uploads still work."""
    async with s3_client(s3_server, bucket=unique) as client:
        longer = Retention(files=timedelta(days=9), record=timedelta(days=1))
        assert () == await ensure_bucket(client, RETENTION)
        assert () == await ensure_bucket(client, RETENTION)
        assert () == await ensure_bucket(client, longer)
        rules = client.minio.get_bucket_lifecycle(unique).rules
        kept = {rule.rule_filter.prefix: rule.expiration.days for rule in rules}
        assert {rule.prefix: rule.days for rule in plan_rules(longer)} == kept
        store = S3ObjectStore(client)
        for prefix in kept:
            assert b"x" == await store.get(await store.put(f"{prefix}a", b"x", "text/plain"))


async def test_scan_and_uploads_go_over_pages(
    real_store: S3ObjectStore,
    unique: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """More objects than a page, and more unfinished uploads, are all found."""
    monkeypatch.setattr(store_module, "PAGE", 2)
    monkeypatch.setattr(uploads_module, "PAGE", 2)
    keys = [f"frames/{unique}/{index}" for index in range(5)]
    for key in keys:
        await real_store.put(key, b"x", "x/y")
        await begin_upload(real_store, key)
    assert keys == [entry.key async for entry in real_store.scan(f"frames/{unique}/")]
    assert keys == sorted(upload.key for upload in await uploads_of(real_store, unique))


async def test_uploads_of_others_are_left_alone(real_store: S3ObjectStore, unique: str) -> None:
    """A bucket may hold more than ours."""
    await begin_upload(real_store, f"backups/{unique}/a")
    assert [] == await uploads_of(real_store, unique)


async def test_copy_of_a_file_in_parts(real_store: S3ObjectStore, unique: str, tmp_path: Path) -> None:
    """It is equal though the first is gone, and keeps its type."""
    write_file(tmp_path / "in.bin")
    ref = await real_store.put_file(f"latents/{unique}/a", tmp_path / "in.bin", "x/tensors")
    copy = await real_store.copy(ref, f"latents/{unique}/b")
    await real_store.remove([ref.key])
    await real_store.get_file(copy, tmp_path / "out.bin")
    stat = real_store._client.minio.stat_object(BUCKET, copy.key)
    assert "x/tensors" == stat.content_type


async def test_missing_bucket_says_so(s3_server: RunningS3) -> None:
    """A put into a bucket that nobody made names what makes it."""
    async with s3_client(s3_server, bucket="nobody-made-it") as client:
        error = await raises(FailureCode.STORE_UNAVAILABLE, S3ObjectStore(client).put("a", b"x", "text/plain"))
    assert "NoSuchBucket" in str(error)
    assert "vitascope up" in str(error)


async def test_wrong_key_says_so(s3_server: RunningS3) -> None:
    """Refused credentials are named, and not shown."""
    client = S3Client(s3_server.endpoint, access_key=s3_server.access_key, secret_key="wrong-one", bucket=BUCKET)
    async with client:
        error = await raises(FailureCode.STORE_UNAVAILABLE, S3ObjectStore(client).get("a"))
    assert "VITASCOPE_S3__SECRET_KEY" in str(error)
    assert "wrong-one" not in str(error)


async def test_no_server_is_an_error_in_time() -> None:
    """Nobody listens: an error after a few tries, with the address."""
    async with S3Client("http://127.0.0.1:1", access_key="a", secret_key="b", bucket="bucket") as client:
        began_s = time.monotonic()
        error = await raises(FailureCode.STORE_UNAVAILABLE, S3ObjectStore(client).put("a", b"x", "text/plain"))
    assert "http://127.0.0.1:1" in str(error)
    assert time.monotonic() - began_s < 30


async def _collect(store: S3ObjectStore, key: str) -> bytes:
    return b"".join([piece async for piece in store.stream(key)])
