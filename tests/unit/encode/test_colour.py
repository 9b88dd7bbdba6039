"""Colours survive: BT.709 limited in the pixels and in the tags."""

from pathlib import Path

import av
import numpy as np
import pytest

from unit.encode.films import decode_rgb_bt709, make_options, make_pixels, write_film
from vitascope.encode.colour import BT709_LIMITED, Bt709Converter, read_tags

SOLIDS = {
    "red": (255, 0, 0),
    "green": (0, 255, 0),
    "blue": (0, 0, 255),
    "white": (255, 255, 255),
    "black": (0, 0, 0),
    "grey": (128, 128, 128),
    "skin": (224, 172, 140),
}


@pytest.mark.parametrize("colour", SOLIDS.values(), ids=SOLIDS.keys())
def test_solid_colour_comes_back_as_bt709_limited(tmp_path: Path, colour: tuple[int, int, int]) -> None:
    """Within 3 of 255 a channel; pixels made by BT.601's matrix would be 20 and more away for the pure colours."""
    options = make_options()
    pixels = np.empty((9, 48, 64, 3), np.uint8)
    pixels[:] = colour
    decoded = decode_rgb_bt709(write_film(tmp_path / "film.mp4", options, pixels))
    np.testing.assert_allclose(np.broadcast_to(colour, decoded.shape), decoded, atol=3)


def test_bt601_pixels_would_fail_the_colour_test() -> None:
    """Guards the test above: the same green by BT.601 reads as another colour."""
    green = np.zeros((16, 16, 3), np.uint8)
    green[..., 1] = 255
    wrong = av.VideoFrame.from_ndarray(green).reformat(format="yuv420p", dst_colorspace="ITU601").to_ndarray()
    right = Bt709Converter().convert(green).to_ndarray()
    assert (173, 145) == (right[0, 0], wrong[0, 0])


def test_conversion_is_the_formula_of_bt709_to_one_step() -> None:
    """Random colours in 2 x 2 blocks, so that chroma is not mixed: luma and chroma within one code value."""
    blocks = np.random.default_rng(7).integers(0, 256, (32, 32, 3), np.uint8)
    planes = Bt709Converter().convert(np.ascontiguousarray(blocks.repeat(2, 0).repeat(2, 1))).to_ndarray()
    red, green, blue = np.moveaxis(blocks / 255, -1, 0)
    luma = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    np.testing.assert_allclose(16 + 219 * luma, planes[:64:2, ::2], atol=1)
    np.testing.assert_allclose(128 + 224 * (blue - luma) / 1.8556, planes[64:80].reshape(32, 32), atol=1)
    np.testing.assert_allclose(128 + 224 * (red - luma) / 1.5748, planes[80:].reshape(32, 32), atol=1)


def test_source_is_only_read() -> None:
    """The converter borrows the picture, even one that must not be written."""
    picture = make_pixels(make_options())[0].copy()
    before = picture.copy()
    picture.flags.writeable = False
    frame = Bt709Converter().convert(picture)
    assert BT709_LIMITED == read_tags(frame)
    np.testing.assert_array_equal(before, picture)


def test_file_is_tagged_in_stream_and_container(tmp_path: Path) -> None:
    """Both the H.264 stream and the `colr` box say BT.709 limited, so that no player has to guess."""
    path = write_film(tmp_path / "film.mp4", make_options())
    with av.open(str(path)) as container:
        assert BT709_LIMITED == read_tags(container.streams.video[0].codec_context)
        assert {BT709_LIMITED} == {read_tags(frame) for frame in container.decode(video=0)}
    content = path.read_bytes()
    start = content.index(b"colrnclx") + 8
    assert bytes([0, 1, 0, 1, 0, 1, 0]) == content[start : start + 7]


def test_chain_of_encodes_does_not_drift(tmp_path: Path) -> None:
    """Five times decoded and encoded, the mean colour has not moved by a step (range errors add up to many)."""
    options = make_options(crf=1)
    pixels = make_pixels(options) // 2 + 60
    first = pixels.mean((0, 1, 2))
    for _ in range(5):
        decoded = decode_rgb_bt709(write_film(tmp_path / "film.mp4", options, pixels))
        pixels = np.clip(np.rint(decoded), 0, 255).astype(np.uint8)
    np.testing.assert_allclose(first, pixels.mean((0, 1, 2)), atol=1)
