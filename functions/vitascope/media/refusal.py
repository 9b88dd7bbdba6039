"""Why media is refused, inside the child; the parent makes a failure of ours of it."""

from enum import StrEnum


class Why(StrEnum):
    """The ways in which media is not taken."""

    INVALID = "invalid"
    TOO_LARGE = "too_large"
    NO_ROOM = "no_room"
    """The disk is full: no fault of the media's."""


class Refusal(Exception):
    """The media is not taken; `detail` is a sentence of ours, without names, paths or the words of a library."""

    def __init__(self, why: Why, detail: str) -> None:
        self.why, self.detail = why, detail
        super().__init__(detail)


def check_pixels(width: int, height: int, max_pixels: int) -> None:
    """Refuse a picture by its declared size, before any of it is decoded.

    Raises:
        Refusal: it has no pixels, or too many.
    """
    if width < 1 or height < 1:
        raise Refusal(Why.INVALID, "It has no pixels.")
    if width * height > max_pixels:
        raise Refusal(Why.TOO_LARGE, f"It has {width}x{height} pixels; the limit is {max_pixels} pixels.")
