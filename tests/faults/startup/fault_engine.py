"""A model without a network: it starts in no time, and its frames follow from every step that was run.

Each step hashes the state before it, so that a resume from a wrong state, a step left out or a step run twice gives
other frames. It stands where `vitascope.engine` stands; stages, events, objects and files are the product's own.
"""

import hashlib
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

STATE_BYTES = 64 * 64 * 3
MAGIC = b"quick model\n"
__path__: list[str] = []  # stands for a package


class EngineError(Exception):
    pass


class ModelFolderError(EngineError):
    pass


class RequestError(EngineError):
    pass


class BlobError(EngineError):
    pass


class DeviceMemoryError(EngineError):
    pass


@dataclass(frozen=True)
class GenerationInputs:
    prompt: str
    seed: int
    width: int
    height: int
    num_frames: int
    num_inference_steps: int
    negative_prompt: str | None = None
    guidance_scale: float | None = None
    guidance_scale_2: float | None = None
    flow_shift: float | None = None
    boundary_ratio: float | None = None
    fps: Any = None
    generate_sound: bool = False
    extra: Any = field(default_factory=dict)

    def digest(self) -> str:
        return hashlib.sha256(repr(self).encode()).hexdigest()


@dataclass(frozen=True)
class Fingerprint:
    model: str = "quick"
    versions: Any = field(default_factory=lambda: {"quick": "1"})
    dtype: str = "uint8"
    device: str = "cpu"


@dataclass(frozen=True)
class StepReport:
    step: int
    steps: int
    snapshot: Any


@dataclass(frozen=True)
class Tiling:
    tile: int
    stride: int


class DenoiseModel:
    fingerprint = Fingerprint()
    sampler = "Hash"
    input_names = frozenset({"prompt"})
    tasks = ("t2v",)

    @classmethod
    def load(cls, _folder: Path, **_how: Any) -> "DenoiseModel":
        return cls()

    def run(self, request: GenerationInputs, on_step: Any = None, resume: bytes | None = None) -> bytes:
        done, state = 0, _stretch(request.digest().encode())
        if resume is not None:
            head, state = _unpack(resume)
            if head["request"] != request.digest():
                raise BlobError("a checkpoint of another request")
            done = head["step"]
        while done < request.num_inference_steps:
            done += 1
            state = _stretch(hashlib.sha256(state + done.to_bytes(4, "big")).digest())
            if on_step is not None:
                head = {"request": request.digest(), "step": done}
                on_step(
                    StepReport(done, request.num_inference_steps, lambda head=head, state=state: _pack(head, state))
                )
        return _pack({"width": request.width, "height": request.height, "frames": request.num_frames}, state)


class DecodeModel:
    fingerprint = Fingerprint()

    @classmethod
    def load(cls, _folder: Path, **_how: Any) -> "DecodeModel":
        return cls()

    def prove(self) -> None:
        pass

    def stream(self, hand_over: bytes, _tiling: Tiling | None = None) -> Iterator[Any]:
        head, state = _unpack(hand_over)
        width, height, frames = head["width"], head["height"], head["frames"]
        seed = np.frombuffer(state, np.uint8)
        base = np.resize(seed, (height // 8, width // 8, 3)).repeat(8, 0).repeat(8, 1)
        first = 0
        while first < frames:
            count = 1 if first == 0 else min(4, frames - first)
            moved = [np.roll(base, 8 * (first + index), axis=1) for index in range(count)]
            yield np.ascontiguousarray(np.stack(moved))
            first += count


def choose_device(_wished: str) -> str:
    return "cpu"


def limit_threads(_count: int | None) -> None:
    pass


def parse_dtype(wished: str) -> str:
    return wished


@contextmanager
def memory_errors_translated() -> Iterator[None]:
    yield


def install() -> None:
    """Take the engine's place."""
    own = sys.modules[__name__]
    for part in ("", ".errors", ".inputs", ".loop", ".tiling", ".device", ".denoise_model", ".decode_model"):
        sys.modules[f"vitascope.engine{part}"] = own


def _stretch(seed: bytes) -> bytes:
    return hashlib.shake_128(seed).digest(STATE_BYTES)


def _pack(head: dict[str, Any], state: bytes) -> bytes:
    text = json.dumps(head).encode()
    return MAGIC + len(text).to_bytes(4, "big") + text + state


def _unpack(blob: bytes) -> tuple[dict[str, Any], bytes]:
    if not blob.startswith(MAGIC):
        raise BlobError("not a blob of the quick model")
    start = len(MAGIC) + 4
    end = start + int.from_bytes(blob[len(MAGIC) : start], "big")
    state = blob[end:]
    if len(state) != STATE_BYTES:
        raise BlobError("a blob of the quick model, cut short")
    return json.loads(blob[start:end]), state
