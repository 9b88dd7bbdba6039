"""RGB to the one colour that files are in: BT.709 limited range, and the tags that say so.

RGB here is full range, as models make it. The matrix is that of ITU-R BT.709-6, section 3: Kr 0.2126, Kb 0.0722;
luma 16 to 235, chroma 16 to 240. Nothing converts the transfer curve: what models learned from is video, so their
values are BT.709's already.
"""

from dataclasses import dataclass

import av
import numpy as np
from av.video.reformatter import ColorRange, Colorspace, Interpolation, VideoReformatter
from numpy.typing import NDArray

# Code points of ITU-T H.273, which libavutil and the file's `colr` box share.
BT709_CODE = 1
LIMITED_RANGE = int(ColorRange.MPEG)
PIXEL_FORMAT = "yuv420p"

# AREA makes a chroma sample the plain mean of its four pixels; the bilinear default takes in rows above and below them
# as well and so blurs a little more with each re-encode. The other two give the same bits on every processor.
_EXACT = Interpolation.AREA | Interpolation.ACCURATE_RND | Interpolation.BITEXACT


@dataclass(frozen=True)
class ColourTags:
    """Colour as a file states it: code points of ITU-T H.273, range as libavutil counts (1 limited, 2 full)."""

    matrix: int
    primaries: int
    transfer: int
    colour_range: int


BT709_LIMITED = ColourTags(BT709_CODE, BT709_CODE, BT709_CODE, LIMITED_RANGE)


class Bt709Converter:
    """Turns RGB pictures into yuv420p frames; keeps swscale's tables from picture to picture."""

    def __init__(self) -> None:
        self._reformatter = VideoReformatter()

    def convert(self, picture: NDArray[np.uint8]) -> av.VideoFrame:
        """Return `picture`, uint8 (H, W, 3), as a tagged frame with pixels of its own; `picture` is only read."""
        borrowed = av.VideoFrame.from_numpy_buffer(picture, format="rgb24")
        frame = self._reformatter.reformat(
            borrowed,
            format=PIXEL_FORMAT,
            src_colorspace=Colorspace.ITU709,
            dst_colorspace=Colorspace.ITU709,
            src_color_range=ColorRange.JPEG,
            dst_color_range=ColorRange.MPEG,
            interpolation=int(_EXACT),
            threads=1,  # 3 ms a 720p frame: waking a second thread costs what it saves
        )
        apply_tags(frame)
        return frame


def apply_tags(target: av.VideoFrame | av.VideoCodecContext) -> None:
    """Mark a frame, or the stream that an encoder writes, as BT.709 limited."""
    target.colorspace = BT709_LIMITED.matrix
    target.color_primaries = BT709_LIMITED.primaries
    target.color_trc = BT709_LIMITED.transfer
    target.color_range = BT709_LIMITED.colour_range


def read_tags(source: av.VideoFrame | av.VideoCodecContext) -> ColourTags:
    """Return the colour that a decoded frame, or a decoder, carries."""
    return ColourTags(
        matrix=int(source.colorspace),
        primaries=int(source.color_primaries),
        transfer=int(source.color_trc),
        colour_range=int(source.color_range),
    )
