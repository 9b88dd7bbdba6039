"""The process that reads one file: `python -I -m vitascope.media.child REQUEST`, where REQUEST is JSON.

It answers with one line of JSON: `{"made": {…}}`, or `{"refused": "…", "detail": "…"}` with one of `Why`. It bounds
itself before it imports any decoder, and has nothing in its environment.
"""

import errno
import json
import sys
from pathlib import Path
from typing import Any

from vitascope.media.confine import Bounds, confine
from vitascope.media.limits import MediaKind, MediaLimits
from vitascope.media.refusal import Refusal, Why

SPARE_CPU_S = 2
"""For starting; the parent's clock strikes first for a file that merely takes long."""


def main() -> None:
    """Read the file that the one argument names."""
    request = json.loads(sys.argv[1])
    limits = MediaLimits(**request["limits"])
    confine(Bounds(limits.memory_bytes, int(limits.timeout_s) + SPARE_CPU_S, limits.max_out_bytes))
    answer: dict[str, Any]
    try:
        answer = {"made": _read(MediaKind(request["kind"]), Path(request["path"]), Path(request["out"]), limits)}
    except Refusal as refusal:
        answer = {"refused": refusal.why, "detail": refusal.detail}
    except MemoryError:
        answer = {"refused": Why.TOO_LARGE, "detail": "To decode it takes more memory than is given to it."}
    except OSError as error:  # of Python and of FFmpeg
        if error.errno not in {errno.EFBIG, errno.ENOSPC}:
            raise
        answer = {"refused": Why.NO_ROOM, "detail": ""}
        if error.errno == errno.EFBIG:
            answer = {"refused": Why.TOO_LARGE, "detail": f"Decoded it has more than {limits.max_out_bytes} bytes."}
    print(json.dumps(answer))  # noqa: T201 (the answer to the parent)


def _read(kind: MediaKind, path: Path, out: Path, limits: MediaLimits) -> dict[str, Any]:
    from vitascope.media.picture import is_image, read_image  # noqa: PLC0415 (after the bounds)

    if kind is MediaKind.IMAGE or (kind is MediaKind.PICTURE and is_image(path)):
        return {"kind": MediaKind.IMAGE, **read_image(path, out, limits)}
    from vitascope.media.clip import read_video  # noqa: PLC0415 (after the bounds)
    from vitascope.media.sound import read_sound  # noqa: PLC0415

    if kind is MediaKind.AUDIO:
        return {"kind": MediaKind.AUDIO, **read_sound(path, out, limits)}
    return {"kind": MediaKind.VIDEO, **read_video(path, out, limits)}


if __name__ == "__main__":
    main()
