"""What can go wrong between pixels and a finished file.

EncodeError
├── InvalidOptions       the request cannot become a file; nothing was written
├── ChunkRefused         pixels of another shape or type than promised
├── AudioRefused         sound of another shape, type or rate than promised, or none at all
├── FrameCountMismatch   more or fewer frames than promised
├── EncodeFailed         the codec, the muxer or the disk said no
└── VerificationFailed   the finished file is not what was asked for
"""


class EncodeError(Exception):
    """Base of every error that this package raises for the world's faults."""


class InvalidOptions(EncodeError):
    """A field of the encoding options is out of bounds; raised before anything is written."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


class ChunkRefused(EncodeError):
    """A pixel chunk is not uint8 (F, H, W, 3), C-contiguous, in the promised size."""


class AudioRefused(EncodeError):
    """Sound is not finite float32 (channels, samples) at the promised rate, or it was promised and never came."""


class FrameCountMismatch(EncodeError):
    """The number of frames differs from the promise, which is exact in both directions."""

    def __init__(self, *, promised: int, received: int) -> None:
        super().__init__(f"promised {promised} frames, received {received}")
        self.promised = promised
        self.received = received


class EncodeFailed(EncodeError):
    """The codec, the muxer or the disk failed; `errno` is the operating system's, where it was its doing."""

    def __init__(self, message: str, *, errno: int | None = None) -> None:
        super().__init__(message)
        self.errno = errno


class VerificationFailed(EncodeError):
    """The file differs from its options; `differences` names each, one sentence an entry, never empty."""

    def __init__(self, differences: tuple[str, ...]) -> None:
        super().__init__("; ".join(differences))
        self.differences = differences
