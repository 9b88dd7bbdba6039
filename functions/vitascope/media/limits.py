"""How large media may be, and what reading it may cost."""

from dataclasses import dataclass
from enum import StrEnum

MEBIBYTE = 1024 * 1024


class MediaKind(StrEnum):
    """What a file must turn out to be."""

    IMAGE = "image"
    VIDEO = "video"
    AUDIO = "audio"
    PICTURE = "picture"
    """An image or a video, whichever it is."""


@dataclass(frozen=True)
class MediaLimits:
    """Bounds of one file.

    Attributes:
        max_pixels: of an image or of one frame, known before it is decoded.
        max_frames: of a video.
        max_duration_s: of a video or of sound.
        max_out_bytes: of the file that reading makes, which is decoded or losslessly compressed.
        memory_bytes: address space of the process that reads.
        timeout_s: for reading one file, on the clock and as CPU time.
    """

    max_pixels: int = 64 * 1024 * 1024
    max_frames: int = 1024
    max_duration_s: float = 300.0
    max_out_bytes: int = 1024 * MEBIBYTE
    memory_bytes: int = 2048 * MEBIBYTE
    timeout_s: float = 60.0
