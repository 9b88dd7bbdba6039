"""`docs/operations.md` names nothing that the code does not have: log messages, metrics, settings, codes, commands."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from pydantic import BaseModel
from typer.main import get_command

from vitascope.cli.app import app
from vitascope.contracts.failures import FailureCode
from vitascope.runtime.settings import Settings

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
FAULTS = [line.split(" | ") for line in TEXT.split("## Bounds")[0].splitlines() if line.startswith("| ")][1:]
OPERATOR_SEES = 2
MESSAGE = re.compile(r"`([a-z][a-z-]*(?: [a-z:,-]+)+)`")


@cache
def sources() -> str:
    files = (path for root in ("functions", "operator") for path in (ROOT / root).rglob("*.py"))
    return "\n".join(path.read_text(encoding="utf-8") for path in files)


def fields(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from fields(kind, f"{prefix}{name.upper()}__")
        else:
            yield f"{prefix}{name.upper()}"


def test_every_fault_has_its_five_cells() -> None:
    """What the client sees, what the operator sees, what mends itself, and what is to be done."""
    assert len(FAULTS) >= 30
    assert {5} == {len(row) for row in FAULTS}


@pytest.mark.parametrize("message", sorted({m for row in FAULTS for m in MESSAGE.findall(row[OPERATOR_SEES])}))
def test_log_message_is_one_of_the_code(message: str) -> None:
    """Whoever greps the logs for it finds it."""
    assert f'"{message}' in sources()


@pytest.mark.parametrize("metric", sorted(set(re.findall(r"vitascope_[a-z_]+", TEXT))))
def test_metric_is_one_of_the_code(metric: str) -> None:
    """Under its own name, or that of its counter or histogram."""
    base = re.sub(r"_(total|count)$", "", metric)
    assert f'"{metric}"' in sources() or f'"{base}"' in sources()


def test_settings_are_settings() -> None:
    """With and without the prefix of all of them."""
    named = set(re.findall(r"`(?:VITASCOPE_)?([A-Z0-9]+__[A-Z_]+)`", TEXT))

    assert len(named) > 8
    assert set() == named - set(fields(Settings))


@pytest.mark.parametrize(
    ("setting", "default"),
    re.findall(r"^\| `([A-Z0-9]+__[A-Z_]+)`[^|]*\| ([\d.,]+) \|", TEXT, flags=re.MULTILINE),
    ids=lambda value: value,
)
def test_default_is_that_of_the_code(setting: str, default: str) -> None:
    """A table of defaults that are no longer true is worse than none."""
    group, name = (part.lower() for part in setting.split("__"))
    model = Settings.model_fields[group].annotation
    assert isinstance(model, type)
    assert issubclass(model, BaseModel)
    assert float(default.replace(",", "")) == model.model_fields[name].default


def test_codes_are_codes() -> None:
    """Whatever looks like a failure's code is one."""
    looks_so = re.compile(r"`((?:[a-z]+_(?:failed|full|memory|lost|stalled|passed|out|expired|missing|conflict))+)`")
    named = set(looks_so.findall(TEXT))

    assert len(named) > 5
    assert set() == named - set(FailureCode)


def test_commands_are_commands() -> None:
    """Each `vitascope …` is a command of the command line."""
    top = get_command(app)
    commands = set(top.commands) | {f"jobs {name}" for name in top.commands["jobs"].commands}
    named = {match.strip() for match in re.findall(r"`vitascope ((?:jobs )?[a-z]+)", TEXT)}

    assert {"jobs retry", "recover", "doctor"} <= named
    assert set() == named - commands
