"""The parent's side: one child a file, bounded in memory, time and what it may write, and never left behind."""

import asyncio
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import structlog

from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.media.limits import MediaKind, MediaLimits
from vitascope.media.refusal import Why

ANSWER_MAX_BYTES = 16 * 1024
_ENVIRONMENT = {"LC_ALL": "C.UTF-8", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
_CODES = {
    Why.INVALID: FailureCode.MEDIA_INVALID,
    Why.TOO_LARGE: FailureCode.MEDIA_TOO_LARGE,
    Why.NO_ROOM: FailureCode.STORE_FULL,
}
log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class ReadMedia:
    """What a file turned out to be, and what was made of it.

    Attributes:
        kind: image, video or audio.
        media_type: of the file that was made.
        suffix: likewise, without a dot.
        width: pixels, upright; None for sound.
        height: likewise.
        num_frames: of a video.
        duration_s: of a video or of sound.
        has_audio: whether a video has sound.
    """

    kind: MediaKind
    media_type: str
    suffix: str
    width: int | None = None
    height: int | None = None
    num_frames: int | None = None
    duration_s: float | None = None
    has_audio: bool | None = None


async def read_media(path: Path, kind: MediaKind, out: Path, limits: MediaLimits) -> ReadMedia:
    """Decode a file that may hold anything, and write it to `out` upright: PNG, lossless Matroska or WAV.

    Whatever the file does to its reader happens in a process of its own, which ends with this call.

    Raises:
        VitascopeError: `media_invalid`, `media_too_large`; `store_full`, the disk is.
    """
    request = {"kind": kind, "path": str(path), "out": str(out), "limits": asdict(limits)}
    try:
        return _understand(await _ask_child(json.dumps(request), limits.timeout_s))
    except BaseException:
        await asyncio.to_thread(out.unlink, missing_ok=True)
        raise


def _understand(answer: dict[str, Any]) -> ReadMedia:
    if "refused" in answer:
        raise VitascopeError(_CODES[Why(answer["refused"])], str(answer["detail"]))
    made = answer["made"]
    return ReadMedia(**{**made, "kind": MediaKind(made["kind"])})


async def _ask_child(request: str, timeout_s: float) -> dict[str, Any]:
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        "-m",
        "vitascope.media.child",
        request,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=_ENVIRONMENT,
        limit=ANSWER_MAX_BYTES,
        start_new_session=True,  # a signal to the service's terminal is the service's to handle
    )
    assert child.stdout is not None, "a pipe was asked for"
    try:
        async with asyncio.timeout(timeout_s):
            line = await child.stdout.readline()
            code = await child.wait()
    except TimeoutError as error:
        raise VitascopeError(FailureCode.MEDIA_TOO_LARGE, f"To decode it takes longer than {timeout_s:g} s.") from error
    except ValueError:  # a line that never ends
        line, code = b"", -1
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    if code != 0 or not line.endswith(b"\n"):
        log.warning("media reader died", code=code)
        raise VitascopeError(FailureCode.MEDIA_INVALID, "It cannot be decoded.")
    answer: dict[str, Any] = json.loads(line)
    return answer
