"""Where models come from: a local folder, an S3 prefix or a hub id, all ending in a local folder."""

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from huggingface_hub import snapshot_download
from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, RepositoryNotFoundError

from vitascope.demo_model import DEMO_MODEL_DIR
from vitascope.engine.errors import ModelFolderError
from vitascope.runtime.ports import ObjectStore

DEMO, S3, HUB = "demo://", "s3://", "hub://"
WANTED = ("*.json", "*.safetensors", "*.txt", "*.model", "*.jinja")
"""What a model in the standard layout needs. Pickles and code are never fetched."""
MARK = ".complete"


async def fetch_model(source: str, cache: Path, open_bucket: Callable[[str], ObjectStore]) -> Path:
    """The folder of a model; fetched into the cache first if it lies elsewhere, and only once.

    Args:
        source: a path, `demo://`, `s3://bucket/prefix`, or `hub://owner/name[@revision]`.
        cache: folder for what is fetched.
        open_bucket: gives the store of a bucket by name.

    Raises:
        ModelFolderError: there is nothing at the source, or it cannot be reached.
        VitascopeError: the object store fails.
    """
    if source == DEMO:
        return DEMO_MODEL_DIR
    if source.startswith(S3):
        return await _fetch_s3(source, cache, open_bucket)
    if source.startswith(HUB):
        return await asyncio.to_thread(_fetch_hub, source.removeprefix(HUB), cache)
    return await asyncio.to_thread(Path(source).expanduser)


async def _fetch_s3(source: str, cache: Path, open_bucket: Callable[[str], ObjectStore]) -> Path:
    """Every wanted object under the prefix; the folder counts only once its mark is written."""
    bucket, _, prefix = source.removeprefix(S3).rstrip("/").partition("/")
    target = cache / "s3" / bucket / PurePosixPath(prefix)
    if await asyncio.to_thread((target / MARK).exists):
        return target
    store = open_bucket(bucket)
    wanted = [key for key in await store.list(f"{prefix}/") if _is_wanted(key)]
    if not wanted:
        raise ModelFolderError(f"{source} holds no model files: check the bucket and the prefix")
    await asyncio.to_thread(shutil.rmtree, target, ignore_errors=True)
    for key in wanted:
        relative = PurePosixPath(key).relative_to(prefix)
        if ".." in relative.parts:
            raise ModelFolderError(f"{source} holds the key {key}, which would leave the folder")
        await _download(store, key, target / relative)
    await asyncio.to_thread((target / MARK).touch)
    return target


def _is_wanted(key: str) -> bool:
    return any(PurePosixPath(key).match(pattern) for pattern in WANTED)


async def _download(store: ObjectStore, key: str, path: Path) -> None:
    await asyncio.to_thread(path.parent.mkdir, parents=True, exist_ok=True)
    arrived_bytes = 0
    with await asyncio.to_thread(path.open, "wb") as file:
        async for piece in store.stream(key):
            arrived_bytes += await asyncio.to_thread(file.write, piece)
    if arrived_bytes != await store.size(key):
        raise ModelFolderError(f"{key} arrived with {arrived_bytes} bytes, which is not its length: try again")


def _fetch_hub(name: str, cache: Path) -> Path:
    """A snapshot of a hub repository; what the hub's own cache holds is not fetched again."""
    repository, _, revision = name.partition("@")
    try:
        found = snapshot_download(
            repository, revision=revision or None, cache_dir=cache / "hub", allow_patterns=list(WANTED)
        )
    except (RepositoryNotFoundError, LocalEntryNotFoundError, HfHubHTTPError, OSError) as error:
        raise ModelFolderError(f"hub://{name} cannot be fetched ({error}): check the id and the network") from error
    return Path(found)
