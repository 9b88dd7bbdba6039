"""What is installed and imported where: no image holds more than its process needs."""

import subprocess
import sys
from importlib import metadata, resources
from pathlib import Path

import pytest
from packaging.requirements import Requirement

HEAVY = {"torch", "diffusers", "transformers"}
ROLES = {
    "ingress": "vitascope.ingress.app, vitascope.ingress.serve, vitascope.publish.signing, vitascope.wiring",
    "publish": "vitascope.publish.publisher, vitascope.wiring",
    "deliver": "vitascope.publish.webhooks, vitascope.wiring.webhooks, vitascope.wiring",
    "encode": "vitascope.encode.handler, vitascope.runtime.serving, vitascope.wiring",
    "schedule": "vitascope_operator.wiring",
    "command line": "vitascope.cli.app",
}


def requirements_of(extra: str) -> set[str]:
    """The distributions that an extra names, extras within it resolved."""
    named: set[str] = set()
    for line in metadata.requires("vitascope") or []:
        requirement = Requirement(line)
        if requirement.marker is None or not requirement.marker.evaluate({"extra": extra}):
            continue
        named |= {requirement.name} - {"vitascope"}
        named |= {name for inner in requirement.extras for name in requirements_of(inner)}
    return named


@pytest.mark.parametrize("extra", ["ingress", "encode", "operator", "cli"])
def test_extra_without_torch(extra: str) -> None:
    """A control-plane or encode image never installs torch."""
    assert set() == requirements_of(extra) & HEAVY


@pytest.mark.parametrize("extra", ["denoise", "decode", "local", "dev"])
def test_extra_with_torch(extra: str) -> None:
    """The stages that compute with it, and whatever runs everything, do; so the test above can fail."""
    assert requirements_of(extra) >= HEAVY


@pytest.mark.parametrize("modules", ROLES.values(), ids=ROLES)
def test_role_imports_no_torch(modules: str) -> None:
    """Not even by way of something else."""
    script = f"import sys; import {modules}; print(sorted({HEAVY} & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    assert "[]" == ran.stdout.strip()


def test_demo_model_is_small() -> None:
    """It is in every installation: 8 MB at most, whole."""
    folder = resources.files("vitascope") / "demo_model"
    with resources.as_file(folder) as path:
        files = [found for found in path.rglob("*") if found.is_file()]
    assert {"transformer", "vae", "text_encoder"} <= {found.parent.name for found in files}
    assert 8_000_000 >= sum(found.stat().st_size for found in files)


def test_source_roots_are_no_packages() -> None:
    """With an `__init__.py`, `operator/` would shadow the standard library's module."""
    root = Path(__file__).parents[2]
    assert [] == [str(found) for name in ("functions", "operator") for found in (root / name).glob("__init__.py")]


def test_constraints_name_versions_only() -> None:
    """No address of a registry: every mirror can serve them."""
    lines = (Path(__file__).parents[2] / "constraints" / "constraints.txt").read_text().splitlines()
    assert [] == [line for line in lines if "://" in line or line.startswith("-")]
    assert len(lines) > 50
