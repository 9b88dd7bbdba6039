"""The catalog: the demo model by default, a file of models otherwise, and errors that say where to look."""

import json
from pathlib import Path
from typing import Any

import pytest

from vitascope.catalog import CatalogInvalid, load_catalog
from vitascope.catalog.demo import make_demo_entry


def _entry(**changes: Any) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": "big",
        "source": "s3://models/big",
        "buckets": [{"name": "a", "width": 832, "height": 480, "num_frames": 81}],
        "defaults": {"width": 832, "height": 480, "num_frames": 81},
    }
    return entry | changes


def _write(tmp_path: Path, content: object) -> Path:
    path = tmp_path / "models.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_without_a_file_the_demo_model_is_the_catalog() -> None:
    """Nothing configured: one model, the default, with thirty shapes."""
    catalog = load_catalog(None)
    assert ("tiny-wan",) == catalog.names
    assert catalog.default is catalog.get("tiny-wan")
    assert 30 == len(catalog.default.buckets)
    assert "64x64_17" in {bucket.name for bucket in catalog.default.buckets}


@pytest.mark.parametrize(
    ("shape", "tokens", "measured_s"),
    [pytest.param((64, 64, 17), 320, 0.066, id="small"), pytest.param((128, 128, 33), 2304, 0.77, id="large")],
)
def test_demo_cost_is_what_was_measured(shape: tuple[int, int, int], tokens: int, measured_s: float) -> None:
    """The line goes through the two measured steps."""
    entry = make_demo_entry()
    assert tokens == entry.geometry.compute_tokens(*shape)
    assert measured_s == pytest.approx(entry.cost.compute_step_s(tokens), rel=1e-3)


def test_models_keep_the_order_of_the_file(tmp_path: Path) -> None:
    """The first is the default; an unknown name is None."""
    catalog = load_catalog(_write(tmp_path, [_entry(), _entry(name="small", pool="p2")]))
    assert ("big", "small") == catalog.names
    assert "big" == catalog.default.name
    assert ("small",) == tuple(entry.name for entry in catalog.of_pool("p2"))
    assert catalog.get("other") is None


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param("{", ["is not JSON"], id="no-json"),
        pytest.param({}, ["must be a JSON list"], id="object"),
        pytest.param([], ["must be a JSON list"], id="empty"),
        pytest.param([_entry(), 3], ["entry 1"], id="number"),
        pytest.param([_entry(buckets=[])], ["entry 0 (big)", "buckets"], id="no-buckets"),
        pytest.param([_entry(sorce="x")], ["entry 0 (big)", "sorce", "not a field"], id="unknown-field"),
        pytest.param([_entry(limits={"max_step": 3})], ["limits.max_step", "not a field"], id="unknown-inner-field"),
        pytest.param(
            [_entry(buckets=[{"name": "a", "width": 832, "height": 480, "num_frames": 81, "x": 1}])],
            ["buckets.0.x"],
            id="unknown-bucket-field",
        ),
        pytest.param(
            [_entry(buckets=[{"name": "a", "width": 833, "height": 480, "num_frames": 81}])],
            ["buckets.0.width"],
            id="odd-width",
        ),
        pytest.param([_entry(defaults={"width": 2, "height": 2, "num_frames": 2})], ["default shape"], id="no-default"),
        pytest.param([_entry(pool="Not A Pool")], ["entry 0 (big)", "pool"], id="pool"),
        pytest.param([_entry(limits={"max_steps": 10})], ["defaults.num_inference_steps"], id="default-steps"),
        pytest.param([_entry(limits={"min_steps": 9, "max_steps": 3})], ["limits.min_steps"], id="empty-steps"),
        pytest.param([_entry(limits={"min_fps": 0})], ["limits.min_fps"], id="fps-nought"),
        pytest.param([_entry(), _entry()], ["name", "big stands there twice"], id="twins"),
        pytest.param([_entry(buckets=_entry()["buckets"] * 2)], ["a stands there twice"], id="twin-buckets"),
    ],
)
def test_wrong_files_are_refused_with_place_and_field(tmp_path: Path, content: object, words: list[str]) -> None:
    """The message names the file, the entry and the field."""
    path = _write(tmp_path, content)
    with pytest.raises(CatalogInvalid) as caught:
        load_catalog(path)
    assert all(word in str(caught.value) for word in [str(path), *words]), str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    """The message says which file, and why."""
    with pytest.raises(CatalogInvalid, match=r"gone\.json: cannot be read: No such file"):
        load_catalog(tmp_path / "gone.json")
