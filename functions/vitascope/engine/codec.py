"""Bytes for checkpoints and hand-overs: one safetensors blob, with JSON in its header. No pickle, no import from input.

JSON holds scalars, strings and null as they are; everything else is an object with one tag:

    {"$tensor": name, "cpu": bool}      a tensor of the blob, and whether it lived on the CPU
    {"$rng": name}                      the state of a generator
    {"$dtype": "float32"}
    {"$list": [...]}  {"$tuple": [...]}  {"$dict": [[key, value], ...]}
    {"$obj": [module, class], "attrs": {...}}     a scheduler, a guider or a part of one (see `restorable`)

The header entry `vitascope` says what kind of blob it is, in which format, which library versions made it, and whatever
stamp the caller wants compared when it is read. The tensor `sha256` is the digest of that entry and of all other
tensors: a bit that flipped on its way would otherwise be a sample that is off, and be resumed from in silence.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import safetensors
import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

from vitascope.engine.errors import BlobFormatError, BlobVersionError
from vitascope.engine.library import VERSIONS
from vitascope.engine.restorable import attributes, is_restorable, object_to_restore, set_attribute

HEADER_KEY = "vitascope"
DIGEST_KEY = "sha256"
# Raise it with every change that an older reader would misread.
FORMAT = 1
# Real headers are a few kB; the bound keeps a damaged length from asking for gigabytes.
MAX_HEADER_BYTES = 16 * 1024 * 1024
LENGTH_BYTES = 8  # safetensors: little-endian length of the JSON header
# What reading data of the wrong shape can raise; all of it means that the blob is not one of ours.
SHAPE_ERRORS = (AttributeError, IndexError, KeyError, RecursionError, RuntimeError, TypeError, ValueError)


@dataclass(frozen=True)
class Blob:
    """A blob that was read and checked.

    Attributes:
        body: packed JSON, for `unpack`.
        stamp: what the maker wanted to be known or compared.
        tensors: on the CPU, by name.
    """

    body: Any  # packed values, of whatever shape was packed
    stamp: dict[str, Any]
    tensors: dict[str, torch.Tensor]


class Packer:
    """Turns values into JSON and collects their tensors; an object met twice is stored once."""

    def __init__(self) -> None:
        self.tensors: dict[str, torch.Tensor] = {}
        # Holding the object keeps its id its own.
        self._seen: dict[int, tuple[str, torch.Tensor]] = {}

    def pack(self, value: object) -> Any:  # noqa: PLR0911 - one return a kind of value
        """JSON for one value.

        Raises:
            TypeError: the value cannot travel. This is a gap in the engine, met at the first checkpoint of a new kind
                of scheduler or family, not something a client can cause.
        """
        if value is None or type(value) in (bool, int, float, str):
            return value
        if isinstance(value, torch.Tensor):
            return {"$tensor": self._put(value), "cpu": value.device.type == "cpu"}
        if isinstance(value, torch.Generator):
            return {"$rng": self._put(value.get_state())}
        if isinstance(value, torch.dtype):
            return {"$dtype": str(value).removeprefix("torch.")}
        if type(value) in (list, tuple):
            items: Any = value
            return {f"${type(value).__name__}": [self.pack(item) for item in items]}
        if isinstance(value, Mapping):
            return {"$dict": [[self.pack(key), self.pack(item)] for key, item in value.items()]}
        if is_restorable(value):
            return self.pack_object(value, {name: self.pack(item) for name, item in attributes(value).items()})
        raise TypeError(f"cannot travel: {type(value)}")

    def pack_object(self, value: object, attrs: dict[str, Any]) -> dict[str, Any]:
        """JSON for a scheduler or guider, with the packed attributes that matter."""
        return {"$obj": [type(value).__module__, type(value).__name__], "attrs": attrs}

    def _put(self, tensor: torch.Tensor) -> str:
        name, _ = self._seen.setdefault(id(tensor), (f"t{len(self.tensors)}", tensor))
        if name not in self.tensors:
            self.tensors[name] = tensor.detach().cpu().contiguous().clone()
        return name


def dumps(packer: Packer, body: object, *, kind: str, stamp: Mapping[str, Any] | None = None) -> bytes:
    """The blob of a packed body and its tensors. `kind` is "checkpoint" or "latents"; `stamp` must be plain JSON."""
    header = {"format": FORMAT, "kind": kind, "made_by": VERSIONS, "stamp": dict(stamp or {}), "body": body}
    text = json.dumps(header)
    assert len(text) <= MAX_HEADER_BYTES, f"a header of {len(text)} bytes would not be read back"
    digest = {DIGEST_KEY: _digest(text, packer.tensors)}
    return save_tensors(packer.tensors | digest, metadata={HEADER_KEY: text})


def loads(data: bytes, *, kind: str) -> Blob:
    """Reads and checks a blob.

    Raises:
        BlobFormatError: not a blob of ours, of another kind, or damaged.
        BlobVersionError: of another format, or made by other library versions.
    """
    text = _read_text(data)
    header = _parse_header(text)
    try:
        form, found, made_by = header["format"], header["kind"], header["made_by"]
        stamp, body = header["stamp"], header["body"]
    except (KeyError, TypeError) as error:
        raise BlobFormatError(f"the header of the blob is incomplete: {error}") from error
    if form != FORMAT:
        raise BlobVersionError(f"the blob is of format {form!r}, this reads {FORMAT}")
    if found != kind:
        raise BlobFormatError(f"expected a blob of kind {kind!r}, found {found!r}")
    if made_by != VERSIONS:
        raise BlobVersionError(f"the blob was made by {made_by}, this is {VERSIONS}: the result would not be exact")
    if not isinstance(stamp, dict):
        raise BlobFormatError("the stamp of the blob is not an object")
    return Blob(body, stamp, _read_tensors(data, text))


def check_stamp(blob: Blob, expected: Mapping[str, Any]) -> None:
    """Raises `BlobVersionError` naming the first entry of the stamp that differs from what is expected."""
    for name, value in expected.items():
        if blob.stamp.get(name) != value:
            raise BlobVersionError(f"the blob was made with {name} {blob.stamp.get(name)!r}, here it is {value!r}")


def unpack(blob: Blob, packed: object, *, old: object = None, device: torch.device | None = None) -> Any:
    """The value of packed JSON.

    `old` is the value that is to be replaced: generators, schedulers and guiders are restored in place, so that
    everyone who holds them sees it. With `device`, tensors that were not on the CPU go there; without, all stay on the
    CPU.

    Raises:
        BlobFormatError: the JSON is not of the form above, or names something that may not be restored.
    """
    try:
        return _unpack(blob, packed, old, device)
    except SHAPE_ERRORS as error:
        raise BlobFormatError(f"the blob cannot be unpacked: {error}") from error


def _unpack(blob: Blob, packed: Any, old: Any, device: torch.device | None) -> Any:
    if isinstance(packed, dict):
        return _unpack_tagged(blob, packed, old, device)
    if isinstance(packed, list):
        raise TypeError("a bare list")
    return packed


def _unpack_tagged(blob: Blob, packed: dict[str, Any], old: Any, device: torch.device | None) -> Any:
    if not packed:
        raise ValueError("an object without a tag")
    tag, content = next(iter(packed.items()))
    match tag:
        case "$tensor":
            return blob.tensors[content].to("cpu" if packed["cpu"] or device is None else device)
        case "$rng":
            return _generator(old, device).set_state(blob.tensors[content])
        case "$dtype":
            return _dtype(content)
        case "$list" | "$tuple":
            items = _unpack_items(blob, content, old, device)
            return items if tag == "$list" else tuple(items)
        case "$dict":
            return {_unpack(blob, key, None, device): _unpack(blob, item, None, device) for key, item in content}
        case "$obj":
            restored = object_to_restore(*content, old=old)
            for name, item in packed["attrs"].items():
                set_attribute(restored, name, _unpack(blob, item, vars(restored).get(name), device))
            return restored
    raise ValueError(f"unknown tag {tag!r}")


def _unpack_items(blob: Blob, packed: list[Any], old: Any, device: torch.device | None) -> list[Any]:
    before = old if isinstance(old, (list, tuple)) and len(old) == len(packed) else [None] * len(packed)
    return [_unpack(blob, item, was, device) for item, was in zip(packed, before, strict=True)]


def _digest(text: str, tensors: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """sha256 of a blob's content, 32 of uint8."""
    total = hashlib.sha256(text.encode())
    for name, tensor in sorted(tensors.items()):
        total.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        total.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return torch.frombuffer(bytearray(total.digest()), dtype=torch.uint8)


def _read_tensors(data: bytes, text: str) -> dict[str, torch.Tensor]:
    try:
        tensors = load_tensors(data)
        is_whole = torch.equal(tensors.pop(DIGEST_KEY), _digest(text, tensors))
    except (safetensors.SafetensorError, *SHAPE_ERRORS) as error:
        raise BlobFormatError(f"the tensors of the blob are damaged: {error}") from error
    if not is_whole:
        raise BlobFormatError("the blob is damaged: its content is not what its digest was made of")
    return tensors


def _read_text(data: bytes) -> str:
    if len(data) < LENGTH_BYTES:
        raise BlobFormatError(f"{len(data)} bytes are no blob")
    length = int.from_bytes(data[:LENGTH_BYTES], "little")
    if length > min(MAX_HEADER_BYTES, len(data) - LENGTH_BYTES):
        raise BlobFormatError(f"the header claims {length} bytes of {len(data)}")
    try:
        text = json.loads(data[LENGTH_BYTES : LENGTH_BYTES + length])["__metadata__"][HEADER_KEY]
    except SHAPE_ERRORS as error:
        raise BlobFormatError(f"the header of the blob cannot be read: {error}") from error
    if not isinstance(text, str):
        raise BlobFormatError("the header of the blob is no text")
    return text


def _parse_header(text: str) -> Any:
    try:
        return json.loads(text)
    except SHAPE_ERRORS as error:
        raise BlobFormatError(f"the header of the blob cannot be read: {error}") from error


def _generator(old: object, device: torch.device | None) -> torch.Generator:
    return old if isinstance(old, torch.Generator) else torch.Generator(device or "cpu")


def _dtype(name: str) -> torch.dtype:
    found = getattr(torch, name)
    if not isinstance(found, torch.dtype):
        raise TypeError(f"{name!r} is no dtype")
    return found
