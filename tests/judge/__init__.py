"""The oracle of the demo model: does a clip show what its prompt says?

Nothing here is learned. ``scenes`` draws the truth from the same vocabulary and geometry that ``judge`` measures
with, so the picture and the verdict cannot drift apart; the training code in ``tools/demo_model`` draws its clips
from here too.
"""

from judge.scenes import Scene, caption_plainly, draw_scene, render_clip
from judge.sight import Seen, describe
from judge.verdict import Verdict, judge
from judge.video import read_video
from judge.vocabulary import BACKGROUNDS, COLOURS, MOTIONS, SHAPES, Wanted, parse_prompt

__all__ = [
    "BACKGROUNDS",
    "COLOURS",
    "MOTIONS",
    "SHAPES",
    "Scene",
    "Seen",
    "Verdict",
    "Wanted",
    "caption_plainly",
    "describe",
    "draw_scene",
    "judge",
    "parse_prompt",
    "read_video",
    "render_clip",
]
