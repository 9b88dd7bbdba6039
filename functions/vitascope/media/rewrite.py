"""The lossless copy of a video in the making."""

from fractions import Fraction
from itertools import pairwise
from typing import Any

from av import VideoFormat
from av.filter import Graph
from av.video.reformatter import ColorRange, Colorspace, Interpolation, VideoReformatter

from vitascope.media.limits import MediaLimits
from vitascope.media.orientation import find_filters
from vitascope.media.refusal import Refusal, Why, check_pixels
from vitascope.media.track import SoundTrack

HD_HEIGHT_PX = 720
"""From this height on, video that does not say its colour matrix is meant as BT.709."""
_UNSPECIFIED = 2  # AVCOL_SPC_UNSPECIFIED
_LOSSLESS = {"qp": "0", "preset": "ultrafast"}
_EXACT = int(Interpolation.BICUBIC | Interpolation.ACCURATE_RND | Interpolation.FULL_CHR_H_INT | Interpolation.BITEXACT)


class Rewrite:
    """Takes decoded frames and sound in the order in which they come; H.264 in RGB without loss, and PCM.

    The streams are made when the first frame shows how large the picture is and how it is held; sound that comes
    before waits until then.
    """

    def __init__(self, sink: Any, rate: Fraction, sound: Any, limits: MediaLimits) -> None:
        self.rate, self.num_frames = rate, 0
        self._sink, self._limits = sink, limits
        self._sound = None if sound is None else SoundTrack(sound.rate, limits.max_duration_s)
        self._early: list[Any] = []
        self._reformatter = VideoReformatter()
        self._source_size = (0, 0)
        self._graph: Graph | None = None
        self._stream: Any = None

    @property
    def size(self) -> tuple[int, int]:
        """Width and height, upright, in pixels."""
        return self._stream.width, self._stream.height

    def take_picture(self, frame: Any) -> None:
        """The next frame.

        Raises:
            Refusal: it is damaged, of another size than those before, or one too many.
        """
        if frame.is_corrupt:
            raise Refusal(Why.INVALID, "It is damaged or cut off.")
        if self.num_frames >= self._limits.max_frames:
            raise Refusal(Why.TOO_LARGE, f"It has more frames than the limit of {self._limits.max_frames}.")
        if self._stream is None:
            check_pixels(frame.width, frame.height, self._limits.max_pixels)
            self._source_size = (frame.width, frame.height)
            self._graph = _make_graph(frame, self.rate)
        if (frame.width, frame.height) != self._source_size:
            raise Refusal(Why.INVALID, "Its size changes on the way.")
        upright = self._turn(frame)
        if self._stream is None:
            self._begin(upright)
        upright.pts, upright.time_base = self.num_frames, 1 / self.rate
        self._sink.mux(self._stream.encode(upright))
        self.num_frames += 1

    def take_sound(self, frame: Any) -> None:
        """The next piece of sound.

        Raises:
            Refusal: it is longer than it may be.
        """
        assert self._sound is not None, "sound comes from a stream that there is"
        pieces = self._sound.convert(frame)
        if self._stream is None:
            self._early += pieces
        else:
            self._mux_sound(pieces)

    def finish(self) -> None:
        """Write out what the encoders hold.

        Raises:
            Refusal: there was no frame.
        """
        if self._stream is None:
            raise Refusal(Why.INVALID, "It has no frames.")
        self._sink.mux(self._stream.encode(None))
        if self._sound is not None:
            self._mux_sound(self._sound.convert(None))
            self._sink.mux(self._sound.stream.encode(None))

    def _begin(self, upright: Any) -> None:
        self._stream = self._sink.add_stream("libx264rgb", rate=self.rate, options=_LOSSLESS)
        self._stream.width, self._stream.height, self._stream.pix_fmt = upright.width, upright.height, "rgb24"
        self._stream.codec_context.thread_count = 1
        if self._sound is not None:
            self._sound.open(self._sink)
            self._mux_sound(self._early)
        self._early = []

    def _mux_sound(self, pieces: list[Any]) -> None:
        assert self._sound is not None, "there is sound"
        for piece in pieces:
            self._sink.mux(self._sound.stream.encode(piece))

    def _turn(self, frame: Any) -> Any:
        """The frame as upright RGB of full range."""
        is_untold = int(frame.colorspace) == _UNSPECIFIED and frame.height >= HD_HEIGHT_PX and not frame.format.is_rgb
        plain = self._reformatter.reformat(
            frame,
            format="rgb24",
            src_colorspace=Colorspace.ITU709 if is_untold else None,
            dst_color_range=ColorRange.JPEG,
            interpolation=_EXACT,
            threads=1,
        )
        if self._graph is None:
            return plain
        self._graph.push(plain)
        return self._graph.pull()


def _make_graph(frame: Any, rate: Fraction) -> Graph | None:
    """The filters that turn frames like this one; None if it is upright."""
    filters = find_filters(frame)
    if not filters:
        return None
    graph = Graph()
    graph.threads = 1
    nodes = [
        graph.add_buffer(width=frame.width, height=frame.height, format=VideoFormat("rgb24"), time_base=1 / rate),
        *(graph.add(name, argument) if argument else graph.add(name) for name, argument in filters),
        graph.add("buffersink"),
    ]
    for first, second in pairwise(nodes):
        first.link_to(second)
    graph.configure()
    return graph
