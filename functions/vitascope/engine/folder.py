"""Checks a model folder before anything is loaded from it: what is missing, damaged or refused is said at start.

A folder has the standard layout of diffusers: `model_index.json` (or `modular_model_index.json`) and one subfolder a
component, with its config and, for models, safetensors files, sharded or not. Weights in pickles are refused: loading
one runs whatever code is in it.
"""

import json
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from vitascope.engine.errors import ModelFolderError

INDEX_NAMES = ("modular_model_index.json", "model_index.json")  # the order in which diffusers looks
CONFIG_NAME = "config.json"
WEIGHT_NAMES = ("diffusion_pytorch_model", "model")  # of diffusers and of transformers
PICKLE_SUFFIXES = (".bin", ".ckpt", ".pt", ".pth")
TRUSTED_LIBRARIES = ("diffusers", "transformers")


def read_index(folder: Path) -> dict[str, Any]:
    """The parsed model index.

    Raises:
        ModelFolderError: no folder, no index, or one that is no JSON object.
    """
    if not folder.is_dir():
        raise ModelFolderError(f"{folder} is no folder: give the path of a model in diffusers layout")
    for name in INDEX_NAMES:
        if (folder / name).is_file():
            return read_json(folder / name)
    raise ModelFolderError(f"{folder} has no {INDEX_NAMES[1]}: it is no model in diffusers layout, or a partial copy")


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file of the folder."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelFolderError(f"{path} cannot be read as JSON ({error}): copy the file again") from error
    if not isinstance(content, dict):
        raise ModelFolderError(f"{path} holds no JSON object: copy the file again")
    return content


def check_component(folder: Path, name: str, *, has_weights: bool) -> None:
    """Raises `ModelFolderError` unless the component's files are there and whole (headers and lengths are checked)."""
    path = folder / name
    if not path.is_dir() or not any(path.iterdir()):
        raise ModelFolderError(f"component {name}: {path} is missing or empty: copy the folder of the model again")
    if has_weights:
        if not (path / CONFIG_NAME).is_file():
            raise ModelFolderError(f"component {name}: {path / CONFIG_NAME} is missing: copy it again")
        read_json(path / CONFIG_NAME)
        for file in weight_files(path, name):
            check_safetensors(file, name)


def weight_files(path: Path, name: str) -> list[Path]:
    """The safetensors files of a component, in order of their names."""
    for stem in WEIGHT_NAMES:
        index, single = path / f"{stem}.safetensors.index.json", path / f"{stem}.safetensors"
        if index.is_file():
            return _shards(index, name)
        if single.is_file():
            return [single]
    pickles = sorted(file.name for file in path.iterdir() if file.suffix in PICKLE_SUFFIXES)
    if pickles:
        raise ModelFolderError(
            f"component {name}: only {pickles[0]} in {path}: weights in pickles are refused, "
            "save the model again with safe_serialization=True"
        )
    others = sorted(file.name for file in path.glob("*.safetensors"))
    found = f"found {', '.join(others)}, which must be named without a variant" if others else "copy them again"
    raise ModelFolderError(f"component {name}: no {WEIGHT_NAMES[0]}.safetensors in {path}: {found}")


def check_safetensors(file: Path, name: str) -> None:
    """Raises `ModelFolderError` if a file's header is damaged or its length is not what the header promises."""
    try:
        with safe_open(str(file), framework="pt"):
            pass
    except (OSError, SafetensorError) as error:
        raise ModelFolderError(f"component {name}: {file} is damaged ({error}): copy the file again") from error


def check_libraries(index: dict[str, Any], pipeline_modules: object) -> None:
    """Raises `ModelFolderError` if a component's class is to come from anywhere but diffusers or transformers."""
    for name, entry in index.items():
        if not (isinstance(entry, list) and entry and isinstance(entry[0], str)):
            continue
        if entry[0] not in TRUSTED_LIBRARIES and not hasattr(pipeline_modules, entry[0]):
            raise ModelFolderError(
                f"component {name} wants code from {entry[0]!r}: only classes of {' and '.join(TRUSTED_LIBRARIES)} "
                "are loaded"
            )


def _shards(index: Path, name: str) -> list[Path]:
    names = read_json(index).get("weight_map")
    if not isinstance(names, dict) or not names:
        raise ModelFolderError(f"component {name}: {index} lists no files: copy it again")
    shards = sorted(set(names.values()))
    for shard in shards:
        if Path(shard).name != shard or not (index.parent / shard).is_file():
            raise ModelFolderError(f"component {name}: {index.parent / shard} is missing: copy the file again")
    return [index.parent / shard for shard in shards]
