"""An entry's abilities hold together, or the catalog says which does not."""

import json
from pathlib import Path
from typing import Any

import pytest

from vitascope.catalog import CatalogInvalid, load_catalog
from vitascope.contracts.models import LatentEdit, Task

H3: dict[str, Any] = {
    "name": "h3",
    "source": "s3://models/h3",
    "tasks": ["t2v", "i2v", "edit"],
    "has_sound": True,
    "buckets": [{"name": "a", "width": 1344, "height": 768, "num_frames": 209}],
    "defaults": {"width": 1344, "height": 768, "num_frames": 209, "fps": 24},
    "limits": {"min_fps": 24, "max_fps": 24},
    "capabilities": {"max_images": 9, "latent_edit": {}},
}


def _load(tmp_path: Path, tasks: list[str] | None = None, **capabilities: Any) -> Any:
    path = tmp_path / "models.json"
    path.write_text(json.dumps([H3 | {"tasks": tasks or ["t2v"], "capabilities": capabilities}]))
    return load_catalog(path).default


def test_abilities_are_read(tmp_path: Path) -> None:
    """With the figures of MiniMax H3 where the file leaves them out."""
    path = tmp_path / "models.json"
    path.write_text(json.dumps([H3]))
    entry = load_catalog(path).default
    assert (Task.T2V, Task.I2V, Task.EDIT) == entry.tasks
    assert LatentEdit(spatial_px=16, patch=2, channels=24) == entry.capabilities.latent_edit


def test_abilities_that_hold_together(tmp_path: Path) -> None:
    """Each with its task."""
    entry = _load(
        tmp_path,
        ["t2v", "v2v", "s2v", "control"],
        max_videos=1,
        max_audios=1,
        control_types=["edge"],
        control_options={"control_weight": {"type": "number", "minimum": 0}},
        has_lora=True,
        lora_sources=["s3://loras/", "/models/loras/"],
        extra_params={"mode": {"type": "string", "choices": ["a"]}},
    )
    assert 0 == entry.capabilities.control_options["control_weight"].minimum


@pytest.mark.parametrize(
    ("tasks", "capabilities", "words"),
    [
        pytest.param(["t2v"], {"max_images": 1}, "capabilities.max_images: goes with the task i2v", id="images"),
        pytest.param(["t2v", "i2v"], {}, "capabilities.max_images: goes with the task i2v", id="no-images"),
        pytest.param(["t2v"], {"max_videos": 1}, "capabilities.max_videos", id="videos"),
        pytest.param(["s2v"], {}, "capabilities.max_audios", id="no-audio"),
        pytest.param(["t2v"], {"control_types": ["edge"]}, "capabilities.control_types", id="control"),
        pytest.param(["t2v"], {"latent_edit": {}}, "capabilities.latent_edit", id="edit"),
        pytest.param(["control"], {"control_types": ["Edge"]}, "capabilities.control_types: 'Edge'", id="capital"),
        pytest.param(["t2v"], {"control_options": {"a": {"type": "number"}}}, "control_options: needs", id="options"),
        pytest.param(["edit"], {"latent_edit": {"spatial_px": 64}}, "the shape a is not made of whole", id="tokens"),
        pytest.param(["t2v"], {"has_lora": True}, "capabilities.lora_sources: has_lora", id="lora-without-sources"),
        pytest.param(["t2v"], {"lora_sources": ["/m/"]}, "capabilities.lora_sources: has_lora", id="sources-alone"),
        pytest.param(["t2v"], {"has_lora": True, "lora_sources": ["/m"]}, "ends with a slash", id="source-open"),
        pytest.param(["t2v"], {"has_interpolation": True}, "capabilities.has_interpolation", id="interpolation"),
        pytest.param(["t2v"], {"extra_params": {"a b": {"type": "number"}}}, "extra_params: 'a b'", id="name"),
        pytest.param(["t2v"], {"extra_params": {"width": {"type": "number"}}}, "extra_params.width", id="own"),
        pytest.param(["t2v"], {"extra_params": {"a": {"type": "float"}}}, "extra_params.a.type", id="type"),
        pytest.param(["t2v"], {"extra_params": {"a": {"type": "string", "minimum": 1}}}, "for numbers", id="minimum"),
        pytest.param(
            ["t2v"], {"extra_params": {"a": {"type": "number", "minimum": 2, "maximum": 1}}}, "above", id="bounds"
        ),
        pytest.param(
            ["t2v"], {"extra_params": {"a": {"type": "integer", "choices": ["1"]}}}, "for strings", id="choices"
        ),
        pytest.param(["t2v"], {"extra_params": {"a": {"type": "number", "mim": 2}}}, "extra_params.a.mim", id="slip"),
        pytest.param(
            ["t2v"], {"media_rules": {"image": {"min_ratio": 2, "max_ratio": 1}}}, "min_ratio is above", id="rule"
        ),
        pytest.param(["t2v"], {"media_rules": {"image": {"min": 2}}}, "media_rules.image.min: is not", id="rule-slip"),
        pytest.param(["t2v"], {"media_rules": {"film": {}}}, "capabilities.media_rules.film", id="rule-of-nothing"),
        pytest.param(["t2v"], {"max_image": 1}, "capabilities.max_image: is not a field", id="slip-outside"),
    ],
)
def test_abilities_that_do_not(tmp_path: Path, tasks: list[str], capabilities: dict[str, Any], words: str) -> None:
    """The file, the entry, the field and why."""
    with pytest.raises(CatalogInvalid) as caught:
        _load(tmp_path, tasks, **capabilities)
    assert words in str(caught.value)
    assert "entry 0 (h3)" in str(caught.value)
