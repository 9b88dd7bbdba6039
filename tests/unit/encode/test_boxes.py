"""The outermost boxes of a file, and files that lie about them."""

import struct
from pathlib import Path

import pytest

from vitascope.encode.boxes import MAX_BOXES, Box, DamagedBoxes, read_boxes, read_brand


def write(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "film.mp4"
    path.write_bytes(content)
    return path


def test_boxes_are_listed_in_order_with_offsets(tmp_path: Path) -> None:
    """Short sizes and 64-bit sizes are both read."""
    long_box = struct.pack(">I4sQ", 1, b"mdat", 20) + b"1234"
    path = write(tmp_path, struct.pack(">I4s4sI", 16, b"ftyp", b"mp42", 0) + long_box)
    assert (Box("ftyp", 0, 16), Box("mdat", 16, 20)) == read_boxes(path)
    assert read_brand(path) == "mp42"


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(struct.pack(">I4s", 9, b"ftyp"), id="beyond the end"),
        pytest.param(struct.pack(">I4s", 7, b"ftyp"), id="smaller than its header"),
        pytest.param(struct.pack(">I4s", 0, b"mdat"), id="open end"),
        pytest.param(struct.pack(">I4sQ", 1, b"mdat", 2**63), id="64-bit beyond the end"),
        pytest.param(struct.pack(">I4sQ", 1, b"mdat", 8), id="64-bit smaller than its header"),
        pytest.param(b"\0\0\0\x08fr", id="stray bytes"),
        pytest.param(struct.pack(">I4s", 8, b"free") * (MAX_BOXES + 1), id="too many"),
    ],
)
def test_lying_boxes_are_refused(tmp_path: Path, content: bytes) -> None:
    """Boxes must fill the file exactly, in a bounded number."""
    with pytest.raises(DamagedBoxes):
        read_boxes(write(tmp_path, content))


def test_brand_of_something_else_is_none(tmp_path: Path) -> None:
    """No `ftyp` in front, no brand."""
    assert read_brand(write(tmp_path, b"RIFF0000AVI LIST")) is None
