"""What a clip shows: backdrop, colours, shapes and motion, measured without any prompt."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from judge.geometry import compute_backdrop
from judge.outlines import compute_turn_degrees, fit_shapes
from judge.tracks import Track, classify_motion, compute_track
from judge.vocabulary import BACKGROUNDS, COLOURS, SHAPES

Clip = npt.NDArray[np.float32]  # (frames, height, width, 3), 0..255
Mask = npt.NDArray[np.bool_]

# Distances between colours are Euclidean in RGB, 0..442.
BACKDROP_WITHIN: Final = 60.0  # median distance to the best backdrop; beyond, the backdrop is unknown
FOREGROUND_BEYOND: Final = 65.0  # distance of a pixel to the backdrop
COLOUR_WITHIN: Final = 75.0  # distance of a pixel to its palette entry
NAMED_SHARE: Final = 0.02  # of the coloured foreground: a colour below it is not named
OBJECT_SHARE: Final = 0.25  # a colour above it is an object of its own
MIN_FOREGROUND: Final = 0.004  # share of all pixels below which there is nothing to see
MIN_MASK_PX: Final = 12  # smallest mask that can have a shape
SHAPE_FRAMES: Final = 4  # frames, evenly spread, whose fits decide the shape


@dataclass(frozen=True)
class Seen:
    """What a clip shows.

    Attributes:
        background: a key of BACKGROUNDS; None if no backdrop fits.
        colours: share (0..1) of the coloured foreground, for every colour above NAMED_SHARE.
        foreground: share of all pixels that differ from the backdrop.
        shapes: the best shape of every colour that is an object.
        motion: a member of MOTIONS; None if there is no clear one.
        track: what the motion was read from.
    """

    background: str | None
    colours: Mapping[str, float]
    foreground: float
    shapes: Mapping[str, str] = field(default_factory=dict)
    motion: str | None = None
    track: Track | None = None


def describe(video: npt.ArrayLike) -> Seen:
    """Measure a clip (frames, height, width, 3), or that with a leading 1; uint8, or float in 0..1."""
    clip = _as_clip(video)
    background, base = _find_backdrop(clip)
    foreground: Mask = _distance(clip, base) > FOREGROUND_BEYOND
    distances = np.stack([_distance(clip, np.array(c, np.float32)) for c in COLOURS.values()], -1)
    core: Mask = foreground & (distances.min(-1) < COLOUR_WITHIN)
    nearest = distances.argmin(-1)
    total = max(int(core.sum()), 1)
    shares = {name: float((core & (nearest == i)).sum() / total) for i, name in enumerate(COLOURS)}
    named = {name: round(share, 3) for name, share in shares.items() if share > NAMED_SHARE}
    if foreground.mean() < MIN_FOREGROUND:
        return Seen(background, named, float(foreground.mean()))
    masks = _split_objects(foreground, core, nearest, shares)
    shapes, turns = {}, [0.0]
    for name, mask in masks.items():
        found = _find_shape(mask)
        if found is not None:
            shapes[name], turn = found
            turns.append(turn)
    track = compute_track(foreground, max(turns))
    motion = classify_motion(track, height_px=clip.shape[1], width_px=clip.shape[2]) if track is not None else None
    return Seen(background, named, float(foreground.mean()), shapes, motion, track)


def _as_clip(video: npt.ArrayLike) -> Clip:
    clip = np.asarray(video)
    clip = clip[0] if clip.ndim == 5 else clip
    assert clip.ndim == 4, clip.shape
    assert clip.shape[-1] == 3, clip.shape
    return clip.astype(np.float32) if clip.dtype == np.uint8 else np.clip(clip, 0, 1).astype(np.float32) * 255


def _distance(clip: Clip, colours: Clip) -> Clip:
    """Distance in RGB of every pixel to its colour, which broadcasts against the clip: (frames, height, width)."""
    difference = clip - colours
    squared: Clip = np.einsum("...c,...c", difference, difference)
    return np.sqrt(squared)


def _find_backdrop(clip: Clip) -> tuple[str | None, Clip]:
    """The best-fitting backdrop and its column; where none fits, the median colour of every row."""
    height_px = clip.shape[1]
    errors = {name: float(np.median(_distance(clip, compute_backdrop(name, height_px)))) for name in BACKGROUNDS}
    best = min(errors, key=lambda name: errors[name])
    if errors[best] > BACKDROP_WITHIN:
        return None, np.median(clip, axis=(0, 2))[:, None].astype(np.float32)
    return best, compute_backdrop(best, height_px)


def _split_objects(
    foreground: Mask, core: Mask, nearest: npt.NDArray[np.intp], shares: Mapping[str, float]
) -> Mapping[str, Mask]:
    """One mask (frames, height, width) per object colour; a single object owns the whole foreground."""
    main = [name for name, share in shares.items() if share > OBJECT_SHARE]
    if len(main) < 2:
        return {max(shares, key=lambda name: shares[name]): foreground}
    index = {name: i for i, name in enumerate(COLOURS)}
    return {name: core & (nearest == index[name]) for name in main}


def _find_shape(mask: Mask) -> tuple[str, float] | None:
    """The shape of one object and its total turn in degrees; None if it is too small in every frame."""
    num_frames = len(mask)
    fits = {i: fit_shapes(mask[i]) for i in range(num_frames) if mask[i].sum() >= MIN_MASK_PX}
    if not fits:
        return None
    spread = {round(i * (num_frames - 1) / (SHAPE_FRAMES - 1)) for i in range(SHAPE_FRAMES)}
    chosen = sorted(spread & fits.keys()) or sorted(fits)
    score = {shape: sum(fits[i][shape].iou for i in chosen) for shape in SHAPES}
    best = max(score, key=lambda shape: score[shape])
    angles = np.array([fits[i][best].angle_degrees for i in sorted(fits)])
    return best, compute_turn_degrees(angles, best)
