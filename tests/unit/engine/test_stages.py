"""Cutting blocks into stages, and what must travel."""

from vitascope.engine.stages import create_blocks, join, live_after, loops_in, split

PROMPT = {"prompt": "a", "height": 16, "width": 16, "num_frames": 9}


def names_of(stages: dict[str, object], stage: str) -> list[str]:
    return list(stages[stage].sub_blocks)  # type: ignore[attr-defined] # the library ships no types


def test_wan_is_cut_at_its_loop() -> None:
    """What stands before the loop's top-level block is encode, what stands after it decode."""
    stages = split(create_blocks("WanBlocks"), PROMPT)

    assert ["text_encoder"] == names_of(stages, "encode")
    assert "denoise.denoise" == names_of(stages, "denoise")[-1]
    assert ["decode"] == names_of(stages, "decode")


def test_branches_follow_the_inputs() -> None:
    """A conditional block runs where its input is present, and leaves no trace where it is not."""
    blocks = create_blocks("LTXAutoBlocks")
    with_image, without = (split(blocks, PROMPT | more) for more in ({"image": object()}, {"image": None}))

    assert ["text_encoder"] == names_of(without, "encode")
    assert names_of(with_image, "encode")[1].startswith("vae_encoder")


def test_loop_around_the_loop_stays_whole() -> None:
    """Cosmos3 transfer hides its loop over chunks in a sequence with a call of its own; flattened, it would be lost."""
    stages = split(create_blocks("Cosmos3OmniBlocks"), PROMPT | {"control_videos": {"edge": []}})
    last = list(stages["denoise"].sub_blocks.values())[-1]

    assert {"decode_chunk", "denoise"} <= set(last.sub_blocks)
    assert len(loops_in(last)) == 1


def test_only_what_is_read_later_travels() -> None:
    """From denoise to decode of Wan go the latents and the wish for an output type; embeddings stay behind."""
    stages = split(create_blocks("WanBlocks"), PROMPT)

    assert ({"latents", "output_type"}, set()) == live_after(stages, "denoise")


def test_what_a_later_stage_makes_itself_does_not_travel() -> None:
    """Latents are made by the denoise stage, so the encode stage need not hand them over; the embeddings it must."""
    names, _ = live_after(split(create_blocks("WanBlocks"), PROMPT), "encode")

    assert {"prompt_embeds", "negative_prompt_embeds", "output_type"} <= names
    assert "timesteps" in names  # an input of its own, which a request may set


def test_joined_stages_run_in_order() -> None:
    """Encode and denoise as one sequence."""
    stages = split(create_blocks("WanBlocks"), PROMPT)
    joined = join(stages["encode"], stages["denoise"])

    assert names_of(stages, "encode") + names_of(stages, "denoise") == list(joined.sub_blocks)
