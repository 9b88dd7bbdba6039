"""Sound on demand: the families that have a switch for it get it, and those without sound refuse."""

import pytest

from vitascope.engine.denoise_model import make_block_inputs
from vitascope.engine.errors import RequestError
from vitascope.engine.families import FAMILIES, Family
from vitascope.engine.inputs import GenerationInputs
from vitascope.engine.stages import create_blocks


def _family(name: str) -> Family:
    return next(row for row in FAMILIES if row.name == name)


@pytest.mark.parametrize(
    ("family", "generate_sound", "switched"),
    [
        pytest.param("cosmos3", True, True, id="switch-on"),
        pytest.param("cosmos3", False, None, id="switch-off"),
        pytest.param("ltx2", True, None, id="always"),
        pytest.param("wan2.1-t2v", False, None, id="never"),
    ],
)
def test_the_switch_is_set(family: str, generate_sound: bool, switched: bool | None) -> None:  # noqa: FBT001 (the case)
    """Where there is one."""
    row = _family(family)
    request = GenerationInputs(prompt="a", seed=1, generate_sound=generate_sound)
    inputs = make_block_inputs(request, create_blocks(row.blocks), row)
    assert switched == inputs.get("enable_sound")


def test_a_silent_family_refuses() -> None:
    """Nothing is dropped without a word."""
    row = _family("wan2.1-t2v")
    with pytest.raises(RequestError, match="makes no sound"):
        make_block_inputs(GenerationInputs(prompt="a", seed=1, generate_sound=True), create_blocks(row.blocks), row)


@pytest.mark.parametrize("row", [pytest.param(row, id=row.name) for row in FAMILIES if row.sound_input])
def test_the_switch_is_an_input_of_the_blocks(row: Family) -> None:
    """By that name."""
    assert row.sound_input in create_blocks(row.blocks).input_names
