"""When two engines are the same."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from vitascope.engine.fingerprints import SAMPLE_BYTES, SAMPLES, compute_fingerprint, hash_folder

CPU = torch.device("cpu")


def test_copy_has_the_same_hash(wan22_folder: Path, own_folder: Path) -> None:
    """Where a model lies does not matter."""
    assert hash_folder(wan22_folder) == hash_folder(own_folder)


def change_config(folder: Path) -> None:
    path = folder / "scheduler/scheduler_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"flow_shift": 4.0}))


def change_weights(folder: Path) -> None:
    path = min((folder / "vae").glob("*.safetensors"))
    save_file({name: weights + 1e-3 for name, weights in load_file(path).items()}, path, metadata={"format": "pt"})


@pytest.mark.parametrize(
    "change",
    [change_config, change_weights, lambda folder: shutil.rmtree(folder / "transformer_2")],
    ids=["config", "weights", "component"],
)
def test_change_of_the_model_changes_the_hash(change: object, wan22_folder: Path, own_folder: Path) -> None:
    """Another training of the same shape is another model."""
    assert callable(change)
    change(own_folder)

    assert hash_folder(wan22_folder) != hash_folder(own_folder)


def test_files_beside_the_model_do_not_matter(wan22_folder: Path, own_folder: Path) -> None:
    """A picture or a readme in the folder is not part of the model."""
    (own_folder / "README.md").write_text("hello")
    (own_folder / "sample.mp4").write_bytes(b"0")

    assert hash_folder(wan22_folder) == hash_folder(own_folder)


def test_large_files_are_sampled_to_both_ends(tmp_path: Path) -> None:
    """The first and the last bytes of a long file count; that some between do not is what makes the start fast."""
    size = 2 * SAMPLES * SAMPLE_BYTES
    hashes = set()
    for at in (None, 0, size - 1, size // 2 + 1):
        content = bytearray(size)
        if at is not None:
            content[at] = 1
        (tmp_path / "x.safetensors").write_bytes(bytes(content))
        hashes.add(hash_folder(tmp_path))

    assert len(hashes) >= 3


def test_dtype_and_device_are_part_of_it(wan22_folder: Path) -> None:
    """The same weights in another dtype are another engine; the digest tells."""
    one, other = (
        compute_fingerprint(wan22_folder, {"default": dtype}, CPU) for dtype in (torch.float32, torch.bfloat16)
    )

    assert one.model == other.model
    assert ("float32", "bfloat16", "cpu") == (one.dtype, other.dtype, one.device)
    assert one.digest() != other.digest()
    assert one.digest() == compute_fingerprint(wan22_folder, {"default": torch.float32}, CPU).digest()
