"""`docs/catalog.md` explains every ability, and its example is a catalog."""

import re
from pathlib import Path

from vitascope.catalog import load_catalog
from vitascope.contracts.models import Capabilities, LatentEdit, Task

PAGE = (Path(__file__).parents[3] / "docs" / "catalog.md").read_text(encoding="utf-8")


def _first_cells(section: str) -> set[str]:
    rows = PAGE.partition(f"## {section}\n")[2].partition("\n## ")[0].splitlines()
    return {name for row in rows if row.startswith("| `") for name in re.findall(r"`(\w+)`", row.split("|")[1])}


def test_every_ability_is_explained() -> None:
    """And every task."""
    assert set(Capabilities.model_fields) == _first_cells("Capabilities")
    assert set(Task) == _first_cells("Tasks")


def test_the_example_is_a_catalog(tmp_path: Path) -> None:
    """As it stands there."""
    path = tmp_path / "models.json"
    path.write_text(PAGE.partition("```json\n")[2].partition("```")[0])
    assert ("h3",) == load_catalog(path).names


def test_the_inputs_are_the_defaults() -> None:
    """Each beside the field that renames it."""
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \| `\[", PAGE, re.MULTILINE)
    assert {
        (getattr(LatentEdit(), field), field) for field in LatentEdit.model_fields if field.endswith("_input")
    } == set(rows)
