"""What an encoder can be asked for: shared by the door, which refuses, and the encode stage, which does it."""

from typing import Literal, get_args

MIN_CRF, MAX_CRF = 1, 51
"""Bounds of libx264's constant rate factor for 8-bit video. 0 would be lossless, which yuv420p players do not take."""

Preset = Literal["ultrafast", "superfast", "veryfast", "faster", "fast", "medium", "slow", "slower", "veryslow"]
"""The presets of libx264 without `placebo`, which costs many times `veryslow` and gains nothing to speak of."""
PRESETS: tuple[str, ...] = get_args(Preset)
