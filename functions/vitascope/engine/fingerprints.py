"""Tells one engine from another: same fingerprint, same bits."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from vitascope.engine.library import VERSIONS

# Per weight file: enough to tell any two trainings of one architecture apart, and little enough for a fast start.
SAMPLES = 32
SAMPLE_BYTES = 64 * 1024
HASHED_WHOLE = (".json", ".txt", ".jinja", ".model")


@dataclass(frozen=True)
class Fingerprint:
    """What a result depends on beside its request.

    Attributes:
        model: sha256 of the model folder, see `hash_folder`.
        versions: of diffusers, torch and transformers.
        dtype: "float32", or "component=dtype" pairs.
        device: "cpu", or the name of the accelerator.
    """

    model: str
    versions: Mapping[str, str]
    dtype: str
    device: str

    def digest(self) -> str:
        """sha256 of all of it, in hexadecimal."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


def compute_fingerprint(folder: Path, dtypes: Mapping[str, torch.dtype], device: torch.device) -> Fingerprint:
    """The fingerprint of a folder as it is loaded here. Reads about 2 MiB of every weight file."""
    names = {name: str(dtype).removeprefix("torch.") for name, dtype in dtypes.items()}
    dtype = names["default"] if len(names) == 1 else " ".join(f"{name}={names[name]}" for name in sorted(names))
    kind = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    return Fingerprint(hash_folder(folder), VERSIONS, dtype, kind)


def hash_folder(folder: Path) -> str:
    """sha256 over the names and contents of a model folder, in hexadecimal.

    Configs, tokenizer files and the like are hashed whole. A weight file counts with its size, its safetensors header
    and 32 evenly spaced blocks of 64 KiB: another training of the same architecture is told apart, a deliberate change
    of single weights between the blocks is not. This guards against mistakes, not against forgery.
    """
    total = hashlib.sha256()
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        if file.suffix == ".safetensors":
            content = _hash_sampled(file)
        elif file.suffix in HASHED_WHOLE:
            content = hashlib.sha256(file.read_bytes()).hexdigest()
        else:
            continue
        total.update(f"{file.relative_to(folder).as_posix()}\n{content}\n".encode())
    return total.hexdigest()


def _hash_sampled(file: Path) -> str:
    size = file.stat().st_size
    digest = hashlib.sha256(str(size).encode())
    with file.open("rb") as stream:
        prefix = stream.read(8)
        digest.update(prefix + stream.read(min(int.from_bytes(prefix, "little"), size)))
        for sample in range(SAMPLES):
            stream.seek(max(0, size - SAMPLE_BYTES) * sample // (SAMPLES - 1))
            digest.update(stream.read(SAMPLE_BYTES))
    return digest.hexdigest()
