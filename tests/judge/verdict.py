"""The verdict: what a prompt asks for against what the clip shows."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy.typing as npt

from judge.sight import Seen, describe
from judge.video import read_video
from judge.vocabulary import Wanted, parse_prompt

SINGLE_COLOUR_SHARE: Final = 0.6  # of the coloured foreground, to be the colour of the only object
SHARED_COLOUR_SHARE: Final = 0.2  # the same, for each of several objects


@dataclass(frozen=True)
class Verdict:
    """Right (True), wrong (False) or not asked for (None), per attribute, with what was wanted and what was seen."""

    colour: bool | None
    shape: bool | None
    background: bool | None
    motion: bool | None
    wanted: Wanted
    seen: Seen

    def __getitem__(self, attribute: str) -> bool | None:
        """One of the four by its name, for a test that chooses which to count."""
        verdicts = {
            "colour": self.colour,
            "shape": self.shape,
            "background": self.background,
            "motion": self.motion,
        }
        return verdicts[attribute]

    @property
    def ok(self) -> bool:
        """Nothing that the prompt asks for is wrong."""
        return False not in {self.colour, self.shape, self.background, self.motion}


def judge(video: Path | str | npt.ArrayLike, prompt: str) -> Verdict:
    """Judge a video file by its path, or a clip as ``describe`` takes it, by a prompt of the caption grammar."""
    wanted = parse_prompt(prompt)
    seen = describe(read_video(Path(video)) if isinstance(video, Path | str) else video)
    return Verdict(
        colour=_is_colour_right(wanted, seen),
        shape=_is_shape_right(wanted, seen),
        background=None if wanted.background is None else wanted.background == seen.background,
        motion=None if wanted.motion is None else wanted.motion == seen.motion,
        wanted=wanted,
        seen=seen,
    )


def _is_colour_right(wanted: Wanted, seen: Seen) -> bool | None:
    colours = {colour for colour, _ in wanted.objects if colour is not None}
    if not colours:
        return None
    if len(colours) == 1:
        share = seen.colours.get(next(iter(colours)), 0.0)
        return share >= SINGLE_COLOUR_SHARE
    return all(seen.colours.get(colour, 0.0) >= SHARED_COLOUR_SHARE for colour in colours)


def _is_shape_right(wanted: Wanted, seen: Seen) -> bool | None:
    if not wanted.objects:
        return None
    if len(wanted.objects) == 1:
        return wanted.objects[0][1] in seen.shapes.values()
    return all(colour is None or seen.shapes.get(colour) == shape for colour, shape in wanted.objects)
