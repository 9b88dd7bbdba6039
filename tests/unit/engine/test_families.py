"""The table of families, against the library's own classes."""

from typing import Any

import diffusers
import pytest

from vitascope.engine.errors import UnknownFamilyError
from vitascope.engine.families import FAMILIES, Family, find_family
from vitascope.engine.stages import create_blocks, split

IDS = [row.name for row in FAMILIES]


@pytest.mark.parametrize(
    ("index", "name"),
    [
        ({"_class_name": "WanPipeline", "boundary_ratio": None}, "wan2.1-t2v"),
        ({"_class_name": "WanPipeline", "boundary_ratio": 0.875}, "wan2.2-t2v"),
        ({"_class_name": "WanImageToVideoPipeline"}, "wan2.1-i2v"),
        ({"_class_name": "WanImageToVideoPipeline", "boundary_ratio": 0.9}, "wan2.2-i2v"),
        ({"_class_name": "WanVACEPipeline", "boundary_ratio": 0.875}, "wan2.2-vace"),
        ({"_class_name": "HunyuanVideo15Pipeline"}, "hunyuan1.5-t2v"),
        ({"_class_name": "LTX2ImageToVideoPipeline"}, "ltx2"),
        ({"_class_name": "MiniMaxH3ModularPipeline"}, "minimax-h3"),
        ({"_class_name": "HeliosPyramidPipeline", "is_distilled": True}, "helios-pyramid-distilled"),
        ({"_class_name": "HeliosPyramidPipeline", "is_distilled": False}, "helios-pyramid"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_index_finds_its_family(index: dict[str, Any], name: str) -> None:
    """One class name may stand for several families; what the index sets decides."""
    assert name == find_family(index).name


@pytest.mark.parametrize("index", [{}, {"_class_name": None}, {"_class_name": "FluxPipeline"}])
def test_unknown_class_is_refused_naming_the_known(index: dict[str, Any]) -> None:
    """The error tells what can be run instead."""
    with pytest.raises(UnknownFamilyError, match=r"does not know .* it knows .*HeliosPipeline.*WanPipeline"):
        find_family(index)


def test_wan22_5b_is_refused() -> None:
    """TI2V-5B has WanPipeline's name and needs what the blocks do not have; running it would give noise."""
    with pytest.raises(UnknownFamilyError, match="TI2V-5B"):
        find_family({"_class_name": "WanPipeline", "boundary_ratio": None, "expand_timesteps": True})


@pytest.mark.parametrize("row", FAMILIES, ids=IDS)
def test_row_names_real_blocks_and_inputs(row: Family) -> None:
    """Every name in a row exists in the pinned library."""
    inputs = set(create_blocks(row.blocks).input_names)
    named = {name for triggers in row.tasks.values() for name in triggers}

    assert set() == (named | ({row.fps_input} if row.fps_input else set())) - inputs
    for name in row.index_classes:
        assert hasattr(diffusers, name), name


@pytest.mark.parametrize("row", FAMILIES, ids=IDS)
def test_every_task_has_three_stages(row: Family) -> None:
    """With its inputs present, each task is cut into encode, denoise with the loop, and decode with the frames."""
    for triggers in row.tasks.values():
        present = {"prompt": True, "height": True, "width": True, "num_frames": True}
        stages = split(create_blocks(row.blocks), present | dict.fromkeys(triggers, True))
        assert ["encode", "denoise", "decode"] == list(stages)
        assert "videos" in {output.name for output in stages["decode"].intermediate_outputs}


@pytest.mark.parametrize("row", [row for row in FAMILIES if "audio" in row.features], ids=lambda row: row.name)
def test_sound_families_say_their_rate(row: Family) -> None:
    """A block gives the sample rate, or the row says which component's config has it."""
    present = {"prompt": True, "height": True, "width": True, "num_frames": True, "enable_sound": True}
    outputs = {o.name for o in split(create_blocks(row.blocks), present)["decode"].intermediate_outputs}

    assert outputs & {"audio", "sound"}
    assert (row.audio_rate is None) == ("sampling_rate" in outputs)
