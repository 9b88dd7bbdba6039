"""Which motion a clip shows: the tracks of the foreground's centroid and area over time."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

# Shares of the frame's width or height, unless said otherwise.
MOVES_ABOVE: Final = 0.14  # net travel of the centroid
SWINGS_ABOVE: Final = 0.10  # range of the centroid's height
RESTS_BELOW: Final = 0.10
GROWS_ABOVE: Final = 1.5  # area at the end over area at the start
TURNS_ABOVE_DEGREES: Final = 40.0
BOUNCE_CORRELATION: Final = 0.7
SEEN_AREA_SHARE: Final = 0.15  # of the largest area: below it, the object is not seen in that frame
MIN_SEEN_FRAMES: Final = 3
END_SHARE: Final = 1 / 6  # of the frames: averaged at either end against jitter


@dataclass(frozen=True)
class Track:
    """How the foreground moved between the two ends of the clip.

    Attributes:
        dx: net travel to the right, as a share of the width.
        dy: net travel downwards, as a share of the height.
        area_ratio: area at the end over area at the start.
        swing: range of the centroid's height.
        bounce_correlation: of the centroid's height with two bounces that start at the top.
        turn_degrees: total turn of the fitted shape.
    """

    dx: float
    dy: float
    area_ratio: float
    swing: float
    bounce_correlation: float
    turn_degrees: float


def compute_track(foreground: npt.NDArray[np.bool_], turn_degrees: float) -> Track | None:
    """Track a foreground (frames, height, width); None if it is there in less than half of the frames."""
    num_frames, height_px, width_px = foreground.shape
    area = foreground.sum((1, 2)).astype(float)
    seen = np.nonzero(area > SEEN_AREA_SHARE * area.max())[0]
    if len(seen) < max(MIN_SEEN_FRAMES, num_frames // 2):
        return None
    x = np.array([np.nonzero(foreground[i])[1].mean() / width_px for i in seen])
    y = np.array([np.nonzero(foreground[i])[0].mean() / height_px for i in seen])
    count = max(1, int(len(seen) * END_SHARE))
    swing = float(np.ptp(y))
    wave = -np.abs(np.cos(2 * np.pi * np.linspace(0, 1, len(seen))))
    return Track(
        dx=float(x[-count:].mean() - x[:count].mean()),
        dy=float(y[-count:].mean() - y[:count].mean()),
        area_ratio=float(area[seen][-count:].mean() / area[seen][:count].mean()),
        swing=swing,
        bounce_correlation=float(np.corrcoef(y, wave)[0, 1]) if swing > 1e-3 else 0.0,  # a flat line has none
        turn_degrees=turn_degrees,
    )


def classify_motion(track: Track, *, height_px: int, width_px: int) -> str | None:
    """The motion of the vocabulary that a track shows; None if it shows none clearly."""
    if max(abs(track.dx), abs(track.dy)) > MOVES_ABOVE:
        if abs(track.dx) * width_px > abs(track.dy) * height_px:
            return "right" if track.dx > 0 else "left"
        return "down" if track.dy > 0 else "up"
    if track.swing > SWINGS_ABOVE and track.bounce_correlation > BOUNCE_CORRELATION:
        return "bouncing"
    if not 1 / GROWS_ABOVE <= track.area_ratio <= GROWS_ABOVE:
        return "growing" if track.area_ratio > 1 else "shrinking"
    if track.turn_degrees > TURNS_ABOVE_DEGREES:
        return "rotating"
    return "still" if max(abs(track.dx), abs(track.dy), track.swing) < RESTS_BELOW else None
