"""Which models a process serves, and what it says when it cannot start."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from vitascope.catalog import Catalog, load_catalog
from vitascope.wiring.models import choose_models


@pytest.fixture
def catalog() -> Catalog:
    """The demo model, and a second one in another pool."""
    demo = load_catalog(None).entries[0]
    return Catalog((demo, demo.model_copy(update={"name": "other", "pool": "far"})))


@pytest.mark.parametrize(
    ("expected", "pool", "names"),
    [
        pytest.param(["tiny-wan"], "default", (), id="all of the pool"),
        pytest.param(["other"], "far", (), id="all of another pool"),
        pytest.param(["other"], "default", ("other",), id="named"),
    ],
)
def test_models_of_a_process(catalog: Catalog, expected: list[str], pool: str, names: tuple[str, ...]) -> None:
    """Those named, else all of its pool."""
    assert expected == [entry.name for entry in choose_models(catalog, pool, names)]


@pytest.mark.parametrize(
    ("says", "pool", "names"),
    [pytest.param("no model nope", "default", ("nope",), id="name"), pytest.param("pool void", "void", (), id="pool")],
)
def test_nothing_to_serve_is_an_error(catalog: Catalog, says: str, pool: str, names: tuple[str, ...]) -> None:
    """A group that could never get work does not start."""
    with pytest.raises(ValueError, match=says):
        choose_models(catalog, pool, names)


@pytest.mark.parametrize(
    ("says", "env"),
    [
        pytest.param("VITASCOPE_DENOISE__MIN_STEP_S", {"VITASCOPE_DENOISE__MIN_STEP_S": "-1"}, id="out of range"),
        pytest.param("VITASCOPE_LOG__LEVEL", {"VITASCOPE_LOG__LEVEL": "loud"}, id="no such word"),
        pytest.param("VITASCOPE_NATS__REPLICAS", {"VITASCOPE_NATS__REPLICAS": "many"}, id="no number"),
        pytest.param("catalog.json", {"VITASCOPE_CATALOG": "/nowhere/catalog.json"}, id="no catalog"),
        pytest.param("MIN_STEPS_S", {"VITASCOPE_DENOISE__MIN_STEPS_S": "1"}, id="misspelt"),
    ],
)
def test_bad_setting_stops_the_process_with_its_name(says: str, env: dict[str, str], tmp_path: Path) -> None:
    """Before anything is connected; no trace."""
    ran = subprocess.run(
        [sys.executable, "-m", "vitascope", "denoise"],
        env={**os.environ, "VITASCOPE_NATS__CONNECT_TIMEOUT_S": "0.2", **env},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (os.EX_CONFIG, True) == (ran.returncode, says in ran.stderr), ran.stderr
    assert "Traceback" not in ran.stderr
