"""A journal of every step, and models that are slow, raise, hang or run out of memory where the harness says so.

The harness writes `orders/NAME.json` with `stage`, `at` (step, chunk or frame count from 1) and `how`; the first
process to come there takes the order by renaming it into `fired/`.
"""

import json
import os
import time
from collections.abc import Callable, Generator
from functools import wraps
from types import ModuleType
from typing import Any

from fault_place import FOLDER, child_name

HANG_S = 3600.0
DECODE_CHUNK_S, ENCODE_CHUNK_S = (float(os.environ.get(f"FAULTS_{name}_CHUNK_S", "0")) for name in ("DECODE", "ENCODE"))


def _note(**entry: Any) -> None:
    line = json.dumps({"t": time.monotonic(), "pid": os.getpid(), "child": child_name(), **entry}) + "\n"
    descriptor = os.open(FOLDER / "journal.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


def _obey(stage: str, at: int, **who: Any) -> None:
    for path in sorted((FOLDER / "orders").glob(f"{stage}-*.json")):
        try:
            order = json.loads(path.read_text())
            if order["at"] != at:
                continue
            path.rename(FOLDER / "fired" / path.name)
        except OSError:
            continue  # another process was faster
        _note(kind="fault", stage=stage, at=at, how=order["how"], order=path.stem, **who)
        _misbehave(order["how"])


def _misbehave(how: str) -> None:
    if how == "hang":
        time.sleep(HANG_S)
    elif how == "die":
        os._exit(9)
    elif how == "oom":
        raise MemoryError("ordered by a test")
    else:
        raise RuntimeError("ordered by a test")


def _change_steps(module: ModuleType) -> None:
    boundary: Any = module.StepBoundary
    call: Callable[..., None] = boundary.__call__

    @wraps(call)
    def noted(self: Any, step: int, steps: int, snapshot: Callable[[], bytes]) -> None:
        work = self._tenure.work
        _note(kind="step", job=work.job, attempt=work.attempt, step=step)
        call(self, step, steps, snapshot)

    boundary.__call__ = noted


def _change_denoiser(module: ModuleType) -> None:
    run: Callable[..., bytes] = module.ModularDenoiser.run

    @wraps(run)
    def ordered(self: Any, request: Any, references: Any, on_step: Any, resume: bytes | None) -> bytes:
        tenure = getattr(on_step, "_tenure", None)
        who = {"job": tenure.work.job, "attempt": tenure.work.attempt} if tenure else {}

        def step_by_step(step: int, steps: int, snapshot: Callable[[], bytes]) -> None:
            _obey("denoise", step, **who)
            on_step(step, steps, snapshot)

        if tenure is not None:
            _note(kind="run", resumed=resume is not None, **who)
        return run(self, request, references, step_by_step, resume)

    module.ModularDenoiser.run = ordered


def _change_decoder(module: ModuleType) -> None:
    stream: Callable[..., Generator[Any, None, None]] = module.ModularDecoder.stream

    @wraps(stream)
    def ordered(self: Any, model: str, blob: bytes, tile_px: int | None) -> Generator[Any, None, None]:
        for number, part in enumerate(stream(self, model, blob, tile_px), 1):
            _obey("decode", number)
            time.sleep(DECODE_CHUNK_S)
            yield part

    module.ModularDecoder.stream = ordered


def _change_clip(module: ModuleType) -> None:
    add: Callable[..., None] = module.Clip.add
    numbers: dict[int, int] = {}

    @wraps(add)
    def ordered(self: Any, chunk: bytes) -> None:
        numbers[id(self)] = number = 1 if self.frames == 0 else numbers.get(id(self), 0) + 1
        _obey("encode", number)
        time.sleep(ENCODE_CHUNK_S)
        add(self, chunk)

    module.Clip.add = ordered


def _change_encode_run(module: ModuleType) -> None:
    run: Callable[..., Any] = module.EncodeRun.run

    @wraps(run)
    async def noted(self: Any, *given: Any) -> Any:
        work = self._tenure.work
        _note(kind="encode", job=work.job, attempt=work.attempt)
        return await run(self, *given)

    module.EncodeRun.run = noted


CHANGES: dict[str, list[Callable[[ModuleType], None]]] = {
    "vitascope.denoise.steps": [_change_steps],
    "vitascope.denoise.modular": [_change_denoiser],
    "vitascope.decode.modular": [_change_decoder],
    "vitascope.encode.clip": [_change_clip],
    "vitascope.encode.handler": [_change_encode_run],
}
