"""Free captions of a scene, and what a caption tells: the data of the text encoder and the denoiser."""

import random
from collections.abc import Callable
from typing import Final

from judge import BACKGROUNDS, COLOURS, MOTIONS, SHAPES, Scene, parse_prompt

PART_SHARE: Final = 0.15  # of the captions leave something out
NOISY_SHARE: Final = 0.08  # of the captions hold a stray word
SYNONYMS: Final = {
    "red": ("red", "red", "scarlet"),
    "purple": ("purple", "purple", "violet"),
    "cyan": ("cyan", "cyan", "turquoise"),
    "circle": ("circle", "circle", "disc", "ball"),
    "square": ("square", "square", "box"),
    "cross": ("cross", "cross", "plus sign"),
    "gray": ("gray", "gray", "grey"),
}
# (participle, finite verb)
MOTION_PHRASES: Final[dict[str, list[tuple[str, str]]]] = {
    "right": [
        ("moving right", "moves right"),
        ("moving to the right", "moves to the right"),
        ("going right", "goes right"),
        ("sliding right", "slides right"),
        ("moving from left to right", "moves from left to right"),
    ],
    "left": [
        ("moving left", "moves left"),
        ("moving to the left", "moves to the left"),
        ("going left", "goes left"),
        ("sliding left", "slides left"),
        ("moving from right to left", "moves from right to left"),
    ],
    "up": [
        ("moving up", "moves up"),
        ("going up", "goes up"),
        ("rising", "rises"),
        ("moving upwards", "moves upwards"),
    ],
    "down": [
        ("moving down", "moves down"),
        ("going down", "goes down"),
        ("falling", "falls"),
        ("moving downwards", "moves downwards"),
    ],
    "growing": [("growing", "grows"), ("expanding", "grows")],
    "shrinking": [("shrinking", "shrinks")],
    "rotating": [("rotating", "rotates"), ("spinning", "spins"), ("turning around", "rotates")],
    "bouncing": [("bouncing", "bounces"), ("jumping", "bounces")],
    "still": [("standing still", "stands still"), ("staying still", "stays still"), ("motionless", "is motionless")],
}
LEADS: Final = ("", "", "", "", "a video of ", "video of ", "a clip of ", "an animation of ", "please show ")
TAILS: Final = ("", "", "", ".", ", high quality", ", simple animation", ", minimal", ", 4k")
STRAY_WORDS: Final = (
    *("cat", "please", "nice", "dog", "zzz", "very", "qwerty", "film", "9", "the", "smooth"),
    *("\u00fcber", "\u597d", "\U0001f3ac"),  # not in the tokenizer: they become <unk>
)
ATTRIBUTES: Final[dict[str, tuple[str | None, ...]]] = {
    "colour": (None, *COLOURS),
    "shape": (None, *SHAPES),
    "background": (None, *BACKGROUNDS),
    "motion": (None, *MOTIONS),
}


def caption_freely(scene: Scene, rng: random.Random) -> str:
    """A caption of the scene: paraphrased, sometimes naming only part of it, sometimes with a stray word."""
    is_part = rng.random() < PART_SHARE

    def is_said(share: float) -> bool:
        return not is_part or rng.random() < share

    subject = _subject(scene, rng, is_said)
    participle, verb = rng.choice(MOTION_PHRASES[scene.motion])
    place = _place(scene.background, rng)
    says_motion, says_place = is_said(0.5), is_said(0.5)
    match rng.randrange(4):
        case 3 if says_motion:
            text = f"{subject} {verb}" + (f" on {place}" if says_place else "")
        case 2 if says_place:
            text = f"on {place}, {subject}" + (f" {participle}" if says_motion else "")
        case _:
            text = subject + (f" {participle}" if says_motion else "")
            text += f" {rng.choice(['on', 'on', 'against', 'over'])} {place}" if says_place else ""
    return _roughen(rng.choice(LEADS) + text + rng.choice(TAILS), rng)


def compute_targets(text: str) -> list[int]:
    """The index in ATTRIBUTES of every value that the caption names; 0 where it names none."""
    wanted = parse_prompt(text)
    colour, shape = wanted.objects[0] if wanted.objects else (None, None)
    named = {"colour": colour, "shape": shape, "background": wanted.background, "motion": wanted.motion}
    return [values.index(named[attribute]) for attribute, values in ATTRIBUTES.items()]


def _subject(scene: Scene, rng: random.Random, is_said: Callable[[float], bool]) -> str:
    shape = rng.choice(SYNONYMS.get(scene.shape, (scene.shape,)))
    colour = rng.choice(SYNONYMS.get(scene.colour, (scene.colour,)))
    words = f"{colour} {shape}" if is_said(0.6) else shape
    article = "an" if words[0] in "aeiou" else "a"
    return f"{article} {words}" if is_said(0.5) else words


def _place(background: str, rng: random.Random) -> str:
    word = rng.choice(SYNONYMS.get(background, (background,)))
    forms = [f"a {word} background", f"a {word} background", f"{word} background", f"a {word} backdrop"]
    if background in {"sky", "night"}:
        forms += [f"a {word} gradient", f"a {word} colored background"]
    return rng.choice(forms)


def _roughen(text: str, rng: random.Random) -> str:
    """A stray word now and then, and sometimes capitals."""
    if rng.random() < NOISY_SHARE:
        words = text.split(" ")
        words.insert(rng.randrange(len(words) + 1), rng.choice(STRAY_WORDS))
        text = " ".join(words)
    shout = rng.random()
    if shout < 0.02:
        return text.upper()
    return text[0].upper() + text[1:] if shout < 0.2 else text
