"""An image: decoded, turned upright, written as PNG without anything else that was in the file."""

import struct
from pathlib import Path
from typing import Any

import PIL.Image
import PIL.ImageOps

from vitascope.media.limits import MediaLimits
from vitascope.media.refusal import Refusal, Why, check_pixels

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")
"""What is tried; of an animation the first frame is taken."""
BACKGROUND = (255, 255, 255)
"""What shows through where the image is transparent, as on a page."""
_DEEP_GREY = ("I;16", "I;16B", "I;16L", "I", "F")
_BROKEN = (OSError, SyntaxError, ValueError, TypeError, KeyError, IndexError, EOFError, struct.error, OverflowError)
"""What Pillow raises over damaged files."""


def is_image(path: Path) -> bool:
    """Whether the file begins like an image of a format that is taken; nothing is decoded."""
    try:
        with _open(path):
            return True
    except (*_BROKEN, PIL.Image.DecompressionBombError):
        return False


def read_image(path: Path, out: Path, limits: MediaLimits) -> dict[str, Any]:
    """Write the image to `out`; its upright size in pixels.

    Raises:
        Refusal: it is no image, is damaged, or has too many pixels.
    """
    try:
        with _open(path) as image:
            check_pixels(*image.size, limits.max_pixels)
            image.load()
            upright = _flatten(PIL.ImageOps.exif_transpose(image))
    except _BROKEN as error:
        raise Refusal(Why.INVALID, "The image cannot be decoded.") from error
    upright.save(out, "PNG", compress_level=1)
    return {"media_type": "image/png", "suffix": "png", "width": upright.width, "height": upright.height}


def _open(path: Path) -> PIL.Image.Image:
    PIL.Image.MAX_IMAGE_PIXELS = None  # the limit is ours, and checked before anything is decoded
    return PIL.Image.open(path, formats=FORMATS)


def _flatten(image: PIL.Image.Image) -> PIL.Image.Image:
    """RGB of 8 bits, with nothing transparent and no metadata."""
    if image.mode in _DEEP_GREY:
        low, high = (0.0, 65535.0) if image.mode.startswith("I;16") else _extent(image)
        scale = 255.0 / ((high - low) or 1.0)
        image = image.convert("F").point(lambda value: (value - low) * scale).convert("L")
    if "A" in image.getbands() or "transparency" in image.info:
        rgba = image.convert("RGBA")
        image = PIL.Image.new("RGB", rgba.size, BACKGROUND)
        image.paste(rgba, mask=rgba.getchannel("A"))
    plain = PIL.Image.new("RGB", image.size)
    plain.paste(image.convert("RGB"))
    return plain


def _extent(image: PIL.Image.Image) -> tuple[float, float]:
    """The darkest and the brightest value; 32-bit greys have no fixed range of their own."""
    low, high = image.getextrema()
    assert isinstance(low, int | float), "one band"
    assert isinstance(high, int | float), "one band"
    return (0.0, 65535.0) if low >= 0 and 255 < high <= 65535 else (float(low), float(high))  # noqa: PLR2004 (16 bits)
