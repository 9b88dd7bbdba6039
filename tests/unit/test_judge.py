"""The oracle of the demo model: right on drawn truth, and not fooled by a clip of something else."""

import itertools
import random
from dataclasses import replace
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt
import pytest

from judge import (
    BACKGROUNDS,
    COLOURS,
    MOTIONS,
    SHAPES,
    Scene,
    Wanted,
    caption_plainly,
    describe,
    draw_scene,
    judge,
    parse_prompt,
    render_clip,
)

RED_CIRCLE = Scene("red", "circle", "white", "right")
GREEN_CROSS = Scene("green", "cross", "night", "still")


def draw(scene: Scene, *, seed: int = 0, frames: int = 17, height: int = 64, width: int = 64) -> npt.NDArray[np.uint8]:
    return render_clip(scene, random.Random(seed), num_frames=frames, height_px=height, width_px=width)


def others(values: tuple[str, ...], value: str) -> list[str]:
    return [other for other in values if other != value]


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("background", BACKGROUNDS)
def test_every_colour_on_every_backdrop_is_told(colour: str, background: str) -> None:
    """A drawn clip is right in all four attributes, whatever the pair of colours."""
    scene = Scene(colour, "square", background, "left")
    verdict = judge(draw(scene), caption_plainly(scene))
    assert (True, True, True, True) == (verdict.colour, verdict.shape, verdict.background, verdict.motion)


@pytest.mark.parametrize(
    ("shape", "motion"), [pair for pair in itertools.product(SHAPES, MOTIONS) if pair != ("circle", "rotating")]
)
def test_every_shape_in_every_motion_is_told(shape: str, motion: str) -> None:
    """A drawn clip is right in all four attributes, whatever moves and however."""
    scene = Scene("blue", shape, "gray", motion)
    verdict = judge(draw(scene, seed=1), caption_plainly(scene))
    assert (True, True, True, True) == (verdict.colour, verdict.shape, verdict.background, verdict.motion)


@pytest.mark.parametrize(
    ("frames", "height", "width"),
    [(9, 64, 64), (33, 64, 64), (17, 96, 96), (17, 64, 128), (17, 128, 80)],
    ids=["short", "long", "larger", "wide", "tall"],
)
def test_other_sizes_are_told(frames: int, height: int, width: int) -> None:
    """Sizes are relative: random scenes of every served size are right."""
    rng = random.Random(frames + height)
    for seed in range(6):
        scene = draw_scene(rng)
        assert judge(draw(scene, seed=seed, frames=frames, height=height, width=width), caption_plainly(scene)).ok, (
            scene
        )


@pytest.mark.parametrize("wrong", others(tuple(COLOURS), "red"))
def test_another_colour_is_wrong(wrong: str) -> None:
    """Only the colour is wrong when only the colour differs."""
    verdict = judge(draw(RED_CIRCLE), caption_plainly(replace(RED_CIRCLE, colour=wrong)))
    assert (False, True, True, True) == (verdict.colour, verdict.shape, verdict.background, verdict.motion)
    assert not verdict.ok


@pytest.mark.parametrize("wrong", others(SHAPES, "cross"))
def test_another_shape_is_wrong(wrong: str) -> None:
    """Only the shape is wrong when only the shape differs."""
    verdict = judge(draw(GREEN_CROSS), caption_plainly(replace(GREEN_CROSS, shape=wrong)))
    assert (True, False, True, True) == (verdict.colour, verdict.shape, verdict.background, verdict.motion)
    assert not verdict.ok


@pytest.mark.parametrize("wrong", others(tuple(BACKGROUNDS), "night"))
def test_another_background_is_wrong(wrong: str) -> None:
    """Only the background is wrong when only the background differs."""
    verdict = judge(draw(GREEN_CROSS), caption_plainly(replace(GREEN_CROSS, background=wrong)))
    assert (True, True, False, True) == (verdict.colour, verdict.shape, verdict.background, verdict.motion)
    assert not verdict.ok


@pytest.mark.parametrize("motion", MOTIONS)
def test_another_motion_is_wrong(motion: str) -> None:
    """A clip of one motion passes for no other."""
    clip = draw(replace(GREEN_CROSS, motion=motion))
    prompts = {name: caption_plainly(replace(GREEN_CROSS, motion=name)) for name in MOTIONS}
    assert [motion] == [name for name, prompt in prompts.items() if judge(clip, prompt).motion]


def test_a_clip_played_backwards_moves_the_other_way() -> None:
    """Order in time counts, not only the set of frames."""
    assert "left" == describe(draw(RED_CIRCLE)[::-1]).motion


def test_an_empty_backdrop_shows_no_object() -> None:
    """Without a foreground nothing but the background can be right."""
    clip = np.full((17, 64, 64, 3), 250, np.uint8)
    verdict = judge(clip, caption_plainly(RED_CIRCLE))
    assert (False, False, True, False) == (verdict.colour, verdict.shape, verdict.background, verdict.motion)


def test_noise_is_wrong_in_everything() -> None:
    """Pixels at random, as from an untrained model, satisfy no prompt."""
    clip = np.random.default_rng(0).integers(0, 256, (17, 64, 64, 3), dtype=np.uint8)
    verdict = judge(clip, caption_plainly(RED_CIRCLE))
    assert (False, False, False) == (verdict.colour, verdict.background, verdict.motion)


def test_an_object_of_two_colours_is_not_of_one() -> None:
    """The colour must cover most of the object."""
    clip = draw(GREEN_CROSS)
    half = clip.copy()
    half[:, :, ::2] = draw(replace(GREEN_CROSS, colour="yellow"))[:, :, ::2]
    assert judge(clip, caption_plainly(GREEN_CROSS)).colour
    assert not judge(half, caption_plainly(GREEN_CROSS)).colour


def test_an_object_gone_from_most_frames_has_no_motion() -> None:
    """A clip that shows its object in a third of the frames is not judged still."""
    clip = draw(replace(GREEN_CROSS, background="black"))
    clip[6:] = clip[0, 0, 0]
    assert describe(clip).motion is None


def test_unit_floats_and_bytes_are_seen_alike() -> None:
    """A decoder's floats in 0..1, with or without a leading batch axis, read like the bytes."""
    clip = draw(GREEN_CROSS)
    assert describe(clip) == describe((clip / 255).astype(np.float32)) == describe((clip / 255)[None])


def test_a_file_is_judged_like_its_frames(tmp_path: Path) -> None:
    """H.264 at a usual quality does not change the verdict."""
    path, clip = tmp_path / "clip.mp4", draw(RED_CIRCLE)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=8, options={"crf": "18"})
        stream.height, stream.width = clip.shape[1:3]
        stream.pix_fmt = "yuv420p"
        for frame in clip:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode())
    assert judge(path, caption_plainly(RED_CIRCLE)).ok
    assert judge(path, caption_plainly(RED_CIRCLE)) == judge(str(path), caption_plainly(RED_CIRCLE))


@pytest.mark.parametrize(
    ("prompt", "wanted"),
    [
        ("", Wanted((), None, None)),
        ("a red circle moving right on a white background", Wanted((("red", "circle"),), "white", "right")),
        ("On a GREY backdrop, a violet plus sign rises.", Wanted((("purple", "cross"),), "gray", "up")),
        ("a ball moving from the left to the right", Wanted(((None, "circle"),), None, "right")),
        ("a pink box and a star standing still", Wanted((("pink", "square"), (None, "star")), None, "still")),
        ("a cat on a sofa", Wanted((), None, None)),
    ],
    ids=["empty", "plain", "synonyms", "origin", "two-objects", "foreign"],
)
def test_prompts_are_read(prompt: str, wanted: Wanted) -> None:
    """The attributes that a prompt names, with synonyms, capitals and gaps."""
    assert wanted == parse_prompt(prompt)


def test_what_a_prompt_leaves_open_is_not_judged() -> None:
    """An attribute that is not asked for is neither right nor wrong."""
    verdict = judge(draw(RED_CIRCLE), "a circle")
    names = ("colour", "shape", "background", "motion")
    assert [None, True, None, None] == [verdict[name] for name in names]
    assert verdict.ok


def test_a_scene_is_drawn_from_its_seed() -> None:
    """The same seed draws the same clip, another seed another one."""
    assert np.array_equal(draw(RED_CIRCLE, seed=3), draw(RED_CIRCLE, seed=3))
    assert not np.array_equal(draw(RED_CIRCLE, seed=3), draw(RED_CIRCLE, seed=4))
