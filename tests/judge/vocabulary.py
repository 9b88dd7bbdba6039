"""The words of the caption grammar, the values they stand for, and how a prompt is read."""

import re
from dataclasses import dataclass

RGB = tuple[int, int, int]

COLOURS: dict[str, RGB] = {
    "red": (220, 40, 45),
    "green": (40, 165, 60),
    "blue": (45, 85, 225),
    "yellow": (245, 210, 40),
    "orange": (245, 130, 25),
    "purple": (140, 50, 185),
    "cyan": (40, 200, 220),
    "pink": (250, 130, 185),
}
# A backdrop is a vertical gradient from the first colour (top row) to the second; the plain ones have equal ends.
BACKGROUNDS: dict[str, tuple[RGB, RGB]] = {
    "white": ((250, 250, 250), (250, 250, 250)),
    "black": ((8, 8, 8), (8, 8, 8)),
    "gray": ((130, 130, 130), (130, 130, 130)),
    "brown": ((100, 68, 42), (100, 68, 42)),
    "sky": ((140, 185, 240), (225, 238, 250)),
    "night": ((8, 12, 50), (62, 30, 88)),
}
SHAPES = ("circle", "square", "triangle", "star", "cross")
MOTIONS = ("right", "left", "up", "down", "growing", "shrinking", "rotating", "bouncing", "still")

# Every other word that names a value; the value itself always does.
SYNONYMS: dict[str, dict[str, str]] = {
    "colour": {"scarlet": "red", "violet": "purple", "turquoise": "cyan"},
    "shape": {"disc": "circle", "ball": "circle", "box": "square", "plus": "cross"},
    "background": {"grey": "gray"},
    "motion": {
        "grows": "growing",
        "expanding": "growing",
        "shrinks": "shrinking",
        "rotates": "rotating",
        "spinning": "rotating",
        "spins": "rotating",
        "turning": "rotating",
        "bounces": "bouncing",
        "jumping": "bouncing",
        "motionless": "still",
        "static": "still",
        "rising": "up",
        "rises": "up",
        "falling": "down",
        "falls": "down",
        "upward": "up",
        "upwards": "up",
        "downward": "down",
        "downwards": "down",
    },
}
WORDS: dict[str, dict[str, str]] = {
    "colour": {name: name for name in COLOURS} | SYNONYMS["colour"],
    "shape": {name: name for name in SHAPES} | SYNONYMS["shape"],
    "background": {name: name for name in BACKGROUNDS} | SYNONYMS["background"],
    "motion": {name: name for name in MOTIONS} | SYNONYMS["motion"],
}


@dataclass(frozen=True)
class Wanted:
    """What a prompt asks for; None where it does not say.

    Attributes:
        objects: (colour or None, shape) of every object, in the order of the prompt.
        background: a key of BACKGROUNDS.
        motion: a member of MOTIONS.
    """

    objects: tuple[tuple[str | None, str], ...]
    background: str | None
    motion: str | None


def parse_prompt(prompt: str) -> Wanted:
    """Read the attributes that a prompt of the grammar names; unknown words are passed over."""
    words = re.findall(r"[a-z]+", prompt.lower())
    objects: list[tuple[str | None, str]] = []
    colour = background = motion = None
    for index, word in enumerate(words):
        if word in WORDS["colour"]:
            colour = WORDS["colour"][word]
        elif word in WORDS["shape"]:
            objects.append((colour, WORDS["shape"][word]))
            colour = None
        elif word in WORDS["background"]:
            background = WORDS["background"][word]
        elif word in WORDS["motion"] and not _is_origin(words, index):
            motion = WORDS["motion"][word]
    return Wanted(tuple(objects), background, motion)


def _is_origin(words: list[str], index: int) -> bool:
    """Whether the word follows "from" or "from the": "moving from left to right" moves right."""
    return words[max(0, index - 1) : index] == ["from"] or words[max(0, index - 2) : index] == ["from", "the"]
