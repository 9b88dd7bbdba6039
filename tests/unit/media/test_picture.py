"""Images become upright RGB PNGs with nothing else in them."""

from pathlib import Path

import numpy as np
import PIL.Image
import PIL.PngImagePlugin
import pytest

from media_files import BLUE, RED, encode, exif_of, pixel_bomb, png, two_colours
from vitascope.media.limits import MediaLimits
from vitascope.media.picture import is_image, read_image
from vitascope.media.refusal import Refusal, Why

LIMITS = MediaLimits()
# Where red ends up, by the EXIF orientation: the corner of the upright picture that was the stored one's left half.
RED_AT = {1: (0, 10), 2: (39, 10), 3: (39, 10), 4: (0, 10), 5: (10, 0), 6: (10, 0), 7: (10, 39), 8: (10, 39)}


def read(content: bytes, folder: Path, limits: MediaLimits = LIMITS) -> PIL.Image.Image:
    path, out = folder / "in", folder / "out"
    path.write_bytes(content)
    made = read_image(path, out, limits)
    image = PIL.Image.open(out)
    assert ("PNG", (made["width"], made["height"])) == (image.format, image.size)
    image.load()
    return image


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize("orientation", RED_AT)
def test_turned_upright(orientation: int, kind: str, tmp_path: Path) -> None:
    """By the orientation that a camera wrote, in every format that has one."""
    image = read(encode(two_colours(), kind, exif=exif_of(orientation)), tmp_path)

    assert (20, 40) == image.size if orientation > 4 else (40, 20) == image.size
    red, blue = (
        RED_AT[orientation],
        (image.width - 1 - RED_AT[orientation][0], image.height - 1 - RED_AT[orientation][1]),
    )
    assert (True, True) == (_is_near(image.getpixel(red), RED), _is_near(image.getpixel(blue), BLUE))


@pytest.mark.parametrize("kind", ["BMP", "GIF"])
def test_formats_without_orientation(kind: str, tmp_path: Path) -> None:
    """They are read as they are."""
    assert _is_near(read(encode(two_colours(), kind), tmp_path).getpixel((0, 0)), RED)


def test_pixels_are_exact(tmp_path: Path) -> None:
    """What came without loss is stored without loss."""
    noise = PIL.Image.fromarray(np.random.default_rng(1).integers(0, 256, (16, 24, 3), np.uint8))

    assert noise.tobytes() == read(png(noise), tmp_path).tobytes()


def test_transparent_is_white(tmp_path: Path) -> None:
    """As on a page; what stands under full transparency does not come through."""
    image = PIL.Image.new("RGBA", (4, 4), (255, 0, 0, 0))

    assert (255, 255, 255) == read(png(image), tmp_path).getpixel((0, 0))


def test_sixteen_bits_keep_their_greys(tmp_path: Path) -> None:
    """A grey of half the range stays half."""
    image = PIL.Image.fromarray(np.full((4, 4), 32768, np.uint16))

    assert (127, 127, 127) == read(png(image), tmp_path).getpixel((0, 0))


def test_nothing_else_survives(tmp_path: Path) -> None:
    """Neither place nor comment of the photo is stored."""
    text = PIL.PngImagePlugin.PngInfo()
    text.add_text("Comment", "at home")
    image = read(encode(two_colours(), "PNG", exif=exif_of(6), pnginfo=text), tmp_path)

    assert {} == image.info


@pytest.mark.parametrize(
    ("content", "why"),
    [
        pytest.param(b"", Why.INVALID, id="empty"),
        pytest.param(b"no image at all", Why.INVALID, id="text"),
        pytest.param(png()[:60], Why.INVALID, id="cut off"),
        pytest.param(png().replace(b"IDAT", b"IDAX"), Why.INVALID, id="without pixels"),
        pytest.param(b"%PDF-1.4\n", Why.INVALID, id="another format"),
        pytest.param(b"<svg xmlns='http://www.w3.org/2000/svg'/>", Why.INVALID, id="svg"),
        pytest.param(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", Why.INVALID, id="postscript"),
        pytest.param(pixel_bomb(), Why.TOO_LARGE, id="bomb"),
    ],
)
def test_refused(content: bytes, why: Why, tmp_path: Path) -> None:
    """What is no image, or too large a one, leaves no file."""
    with pytest.raises(Refusal) as caught:
        read(content, tmp_path)

    assert why == caught.value.why
    assert not (tmp_path / "out").exists()


def test_limit_is_the_pixels(tmp_path: Path) -> None:
    """Exactly so many are taken."""
    assert (40, 20) == read(png(), tmp_path, MediaLimits(max_pixels=800)).size
    with pytest.raises(Refusal, match="40x20"):
        read(png(), tmp_path, MediaLimits(max_pixels=799))


def test_image_is_known_by_its_beginning(tmp_path: Path) -> None:
    """A bomb is one, too: that it is refused is said later."""
    for content, expected in ((png(), True), (pixel_bomb(), True), (b"ftyp", False)):
        (tmp_path / "in").write_bytes(content)
        assert expected == is_image(tmp_path / "in")


def _is_near(pixel: object, colour: tuple[int, int, int]) -> bool:
    assert isinstance(pixel, tuple)
    return all(abs(a - b) < 40 for a, b in zip(pixel, colour, strict=True))
