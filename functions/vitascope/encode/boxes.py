"""The outermost boxes of an MP4 file (ISO/IEC 14496-12, section 4.2): what it is made of and in which order."""

import struct
from dataclasses import dataclass
from pathlib import Path

MAX_BOXES = 64  # a finished file has four
_SHORT_HEADER_BYTES = 8
_LONG_HEADER_BYTES = 16


class DamagedBoxes(Exception):
    """The boxes do not fill the file exactly: it was cut, or is no MP4."""


@dataclass(frozen=True)
class Box:
    """One outermost box: four-letter kind, offset and size in bytes, header included."""

    kind: str
    offset_bytes: int
    size_bytes: int


def read_boxes(path: Path) -> tuple[Box, ...]:
    """Return the outermost boxes of the file in order. Raises `DamagedBoxes`, and `OSError` as `open` does."""
    boxes: list[Box] = []
    file_bytes = path.stat().st_size
    offset_bytes = 0
    with path.open("rb") as file:
        while offset_bytes < file_bytes:
            file.seek(offset_bytes)
            box = _parse_header(file.read(_LONG_HEADER_BYTES), offset_bytes)
            offset_bytes += box.size_bytes
            if offset_bytes > file_bytes:
                raise DamagedBoxes(f"box {box.kind} ends {offset_bytes - file_bytes} bytes after the file")
            boxes.append(box)
            if len(boxes) > MAX_BOXES:
                raise DamagedBoxes(f"more than {MAX_BOXES} boxes")
    return tuple(boxes)


def read_brand(path: Path) -> str | None:
    """Return the major brand of the file's first box, or None if that is no `ftyp`."""
    with path.open("rb") as file:
        head = file.read(12)
    return head[8:12].decode("latin-1") if head[4:8] == b"ftyp" and len(head) == 12 else None  # noqa: PLR2004 - as read


def _parse_header(head: bytes, offset_bytes: int) -> Box:
    if len(head) < _SHORT_HEADER_BYTES:
        raise DamagedBoxes(f"{len(head)} stray bytes at the end")
    size_bytes, kind = struct.unpack_from(">I4s", head)
    header_bytes = _SHORT_HEADER_BYTES
    if size_bytes == 1 and len(head) == _LONG_HEADER_BYTES:  # a box beyond 4 GiB: the size follows the kind
        (size_bytes,) = struct.unpack_from(">Q", head, _SHORT_HEADER_BYTES)
        header_bytes = _LONG_HEADER_BYTES
    if size_bytes < header_bytes:  # 0, "up to the end of the file", is for streams and no finished file of ours
        raise DamagedBoxes(f"box at {offset_bytes} claims {size_bytes} bytes")
    return Box(kind.decode("latin-1"), offset_bytes, size_bytes)
