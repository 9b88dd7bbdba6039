"""The truth: random one-object scenes, their plain captions and their rendered clips."""

import math
import random
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from judge.geometry import compute_backdrop, compute_signed_distance
from judge.vocabulary import BACKGROUNDS, COLOURS, MOTIONS, SHAPES

# All lengths are in units of the frame's shorter side, so one scene looks alike at every size. Sizes and places are few
# and multiples of 1/16: at 64 pixels they fall on the latent grid, which is what lets so small a model learn outlines.
RADIUS: Final = 0.24  # nominal; large, so that a star keeps its points through an 8x spatial compression
SIZES: Final = (0.65, 1.2)  # factors on the radius at the ends of growing and shrinking
TRAVEL: Final = 0.25  # share of the side along which a motion goes, half of it on either side of the middle
OFFSETS: Final = (-0.125, 0.125)  # from the middle, of a coordinate that does not move
TURN_RAD: Final = math.radians(140)
OUTER_REACH: Final = 1.25  # the points of a star, in radii

PLAIN_MOTIONS: Final = {
    "right": "moving right",
    "left": "moving left",
    "up": "moving up",
    "down": "moving down",
    "growing": "growing",
    "shrinking": "shrinking",
    "rotating": "rotating",
    "bouncing": "bouncing",
    "still": "standing still",
}


@dataclass(frozen=True)
class Scene:
    """The attributes of one clip: a key of COLOURS and BACKGROUNDS, a member of SHAPES and MOTIONS."""

    colour: str
    shape: str
    background: str
    motion: str


def draw_scene(rng: random.Random) -> Scene:
    """A scene at random; a circle never rotates, as that would look still."""
    motion = rng.choice(MOTIONS)
    shape = rng.choice([s for s in SHAPES if (s, motion) != ("circle", "rotating")])
    return Scene(rng.choice(list(COLOURS)), shape, rng.choice(list(BACKGROUNDS)), motion)


def caption_plainly(scene: Scene) -> str:
    """The canonical prompt of a scene, for example "an orange star moving up on a night background"."""
    article = "an" if scene.colour[0] in "aeiou" else "a"
    return f"{article} {scene.colour} {scene.shape} {PLAIN_MOTIONS[scene.motion]} on a {scene.background} background"


@dataclass(frozen=True)
class _Track:
    """Where the object is in every frame (each: one float per frame)."""

    x: npt.NDArray[np.float64]
    y: npt.NDArray[np.float64]
    radius: npt.NDArray[np.float64]
    angle_rad: npt.NDArray[np.float64]


def render_clip(  # the shape of a clip is three numbers, so it takes five arguments
    scene: Scene, rng: random.Random, *, num_frames: int, height_px: int, width_px: int
) -> npt.NDArray[np.uint8]:
    """Draw a scene at a random place as uint8 (frames, height, width, 3), edges anti-aliased."""
    unit_px = min(height_px, width_px)
    time = np.linspace(0, 1, num_frames) if num_frames > 1 else np.full(1, rng.random())
    track = _draw_track(scene.motion, rng, time, extent=(width_px / unit_px, height_px / unit_px))
    x, y = np.meshgrid((np.arange(width_px) + 0.5) / unit_px, (np.arange(height_px) + 0.5) / unit_px)
    clip = np.broadcast_to(compute_backdrop(scene.background, height_px), (num_frames, height_px, width_px, 3)).copy()
    colour = np.array(COLOURS[scene.colour], np.float32)
    for index in range(num_frames):
        centre_x, centre_y, radius = track.x[index], track.y[index], track.radius[index]
        reach = OUTER_REACH * radius + 2 / unit_px
        rows = slice(max(0, int((centre_y - reach) * unit_px)), int((centre_y + reach) * unit_px) + 2)
        columns = slice(max(0, int((centre_x - reach) * unit_px)), int((centre_x + reach) * unit_px) + 2)
        distance = compute_signed_distance(
            scene.shape,
            x[rows, columns] - centre_x,
            y[rows, columns] - centre_y,
            radius=radius,
            angle_rad=track.angle_rad[index],
        )
        cover = np.clip(0.5 - distance * unit_px, 0, 1)[..., None].astype(np.float32)
        box = clip[index, rows, columns]
        box += (colour - box) * cover
    return clip.round().astype(np.uint8)


def _draw_track(
    motion: str, rng: random.Random, time: npt.NDArray[np.float64], *, extent: tuple[float, float]
) -> _Track:
    """A track of the motion, at a random place inside a frame of the given width and height."""
    size, angle = np.ones_like(time), np.zeros_like(time)
    if motion in {"growing", "shrinking"}:
        small, large = SIZES
        size = small + (large - small) * (time if motion == "growing" else 1 - time)
    if motion == "rotating":
        angle = TURN_RAD * time
    x, y = (np.full_like(time, side / 2 + rng.choice(OFFSETS)) for side in extent)
    along: dict[str, npt.NDArray[np.float64]] = {
        "right": time,
        "down": time,
        "left": 1 - time,
        "up": 1 - time,
        "bouncing": np.float64(1) - np.abs(np.cos(2 * np.pi * time)),  # twice, from the top
    }
    if motion in {"right", "left"}:
        x = extent[0] * (0.5 + TRAVEL * (along[motion] - 0.5))
    elif motion in along:
        y = extent[1] * (0.5 + TRAVEL * (along[motion] - 0.5))
    return _Track(x, y, RADIUS * size, angle)
