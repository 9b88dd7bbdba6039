"""`docs/screens.md` says what the screens do."""

import json
import re
from pathlib import Path

import pytest

from vitascope.runtime.settings import ScreenSettings
from vitascope.screen.rules import BUILTIN, RuleScreen, load_rules

PAGE = (Path(__file__).parents[2] / "docs" / "screens.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| (`[A-Z_`, ]+`) \| ([^|]+) \|", PAGE, re.MULTILINE))


def test_every_setting_stands_there() -> None:
    """And no other."""
    named = {name.lower() for cell in ROWS for name in re.findall(r"`([A-Z_]+)`", cell)}
    assert set(ScreenSettings.model_fields) == named


@pytest.mark.parametrize("cell", [cell for cell, default in ROWS.items() if default not in {"off", "none", "`[]`"}])
def test_default_is_that_of_the_code(cell: str) -> None:
    """Where the table has a value."""
    assert json.loads(ROWS[cell]) == ScreenSettings.model_fields[cell.strip("`").lower()].default


async def test_example_of_rules_works(tmp_path: Path) -> None:
    """As the page says."""
    path = tmp_path / "rules.json"
    path.write_text(re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)[0])
    screen = RuleScreen(load_rules(str(path)))
    finding = await screen.check(["a child swings a sword"])
    assert finding is not None
    assert "blades" == finding.rule
    assert await screen.check(["a child swings a toy sword"]) is None
    assert await screen.check(["a plate, AB 123 CD"]) is not None


def test_list_that_ships_has_so_many_rules() -> None:
    """Five."""
    assert "has five short English rules" in PAGE
    assert 5 == len(load_rules(BUILTIN))
