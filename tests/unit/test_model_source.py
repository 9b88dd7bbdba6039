"""Where models come from: each kind of source ends in a folder, or in an error that says what to check."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from vitascope import model_source
from vitascope.adapters.memory import MemoryObjectStore
from vitascope.demo_model import DEMO_MODEL_DIR
from vitascope.engine.errors import ModelFolderError
from vitascope.model_source import fetch_model
from vitascope.runtime.ports import ObjectStore


@pytest.fixture
def store() -> MemoryObjectStore:
    return MemoryObjectStore()


@pytest.fixture
def open_bucket(store: MemoryObjectStore) -> Callable[[str], ObjectStore]:
    """Only the bucket `models` is there to be opened."""

    def open_one(bucket: str) -> ObjectStore:
        assert bucket == "models"
        return store

    return open_one


async def test_demo_and_local_folders_are_taken_where_they_are(
    tmp_path: Path, open_bucket: Callable[[str], ObjectStore]
) -> None:
    """Nothing is copied."""
    assert DEMO_MODEL_DIR == await fetch_model("demo://", tmp_path, open_bucket)
    assert tmp_path / "m" == await fetch_model(str(tmp_path / "m"), tmp_path, open_bucket)
    assert Path.home() / "m" == await fetch_model("~/m", tmp_path, open_bucket)


async def test_s3_prefix_becomes_the_same_folder(
    tmp_path: Path, store: MemoryObjectStore, open_bucket: Callable[[str], ObjectStore]
) -> None:
    """Every file of a model, and neither pickles nor neighbours of the prefix."""
    files = {path.relative_to(DEMO_MODEL_DIR): path for path in DEMO_MODEL_DIR.rglob("*") if path.is_file()}
    for name, path in files.items():
        await store.put(f"wan/v1/{name}", path.read_bytes(), "application/octet-stream")
    await store.put("wan/v1/vae/evil.bin", b"pickle", "application/octet-stream")
    await store.put("wan/v10/model_index.json", b"{}", "application/json")
    folder = await fetch_model("s3://models/wan/v1", tmp_path, open_bucket)
    fetched = {path.relative_to(folder): path for path in folder.rglob("*.*") if path.name != model_source.MARK}
    assert set(files) == set(fetched)
    assert all(path.read_bytes() == fetched[name].read_bytes() for name, path in files.items())


async def test_s3_model_is_fetched_once_and_again_if_it_was_cut_off(
    tmp_path: Path, store: MemoryObjectStore, open_bucket: Callable[[str], ObjectStore]
) -> None:
    """The mark says that everything is there; without it the folder is made anew."""
    await store.put("m/model_index.json", b"{}", "application/json")
    folder = await fetch_model("s3://models/m", tmp_path, open_bucket)
    await store.put("m/model_index.json", b'{"new": 1}', "application/json")
    assert b"{}" == ((await fetch_model("s3://models/m", tmp_path, open_bucket)) / "model_index.json").read_bytes()
    (folder / model_source.MARK).unlink()
    (folder / "half").write_bytes(b"x")
    again = await fetch_model("s3://models/m", tmp_path, open_bucket)
    assert {"model_index.json", model_source.MARK} == {path.name for path in again.iterdir()}


@pytest.mark.parametrize(
    ("key", "says"),
    [pytest.param("m/readme", "no model files", id="no model"), pytest.param("m/../x.json", "leave", id="key climbs")],
)
async def test_s3_prefix_without_a_model_is_refused(
    tmp_path: Path, store: MemoryObjectStore, open_bucket: Callable[[str], ObjectStore], key: str, says: str
) -> None:
    """The error names the source; nothing is written outside the cache."""
    await store.put(key, b"x", "text/plain")
    with pytest.raises(ModelFolderError, match=says):
        await fetch_model("s3://models/m", tmp_path / "cache", open_bucket)
    assert not (tmp_path / "x.json").exists()


async def test_hub_id_is_fetched_with_what_is_wanted(
    tmp_path: Path, open_bucket: Callable[[str], ObjectStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Id and revision go to the hub's own library, which is asked for safetensors and configuration only."""
    asked = {}

    def snapshot(name: str, **options: object) -> str:
        asked.update(options, name=name)
        return str(shutil.copytree(DEMO_MODEL_DIR, tmp_path / "snapshot"))

    monkeypatch.setattr(model_source, "snapshot_download", snapshot)
    folder = await fetch_model("hub://owner/name@v2", tmp_path, open_bucket)
    assert (tmp_path / "snapshot", "owner/name", "v2") == (folder, asked["name"], asked["revision"])
    assert list(model_source.WANTED) == asked["allow_patterns"]


async def test_hub_out_of_reach_is_said(
    tmp_path: Path, open_bucket: Callable[[str], ObjectStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The id and the cause, not a trace of the library."""

    def snapshot(name: str, **_options: object) -> str:
        raise OSError(f"no route to {name}")

    monkeypatch.setattr(model_source, "snapshot_download", snapshot)
    with pytest.raises(ModelFolderError, match=r"hub://owner/name .*no route"):
        await fetch_model("hub://owner/name", tmp_path, open_bucket)
