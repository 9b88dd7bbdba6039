"""Set up the virtual environment: standard library only, so that a fresh machine can run it.

    python3 tools/setup_venv.py --venv .venv [--torch-backend cpu]

Downloads come from PyPI (or the mirror that pip is set up for); every version is pinned by `constraints/`.
"""

import argparse
import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / "constraints" / "constraints.txt"
OLDEST, NEWEST = (3, 11), (3, 13)


def main() -> None:
    """Make the environment, or bring it up to date."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--venv", type=Path, default=ROOT / ".venv")
    parser.add_argument("--torch-backend", default="", help="uv's --torch-backend: cpu, cu130, auto, …")
    parser.add_argument("--extras", default="dev", help="what to install")
    options = parser.parse_args()
    if not OLDEST <= sys.version_info[:2] <= NEWEST:
        found = ".".join(map(str, sys.version_info[:3]))
        sys.exit(f"vitascope needs Python 3.11 to 3.13, this is {found}. Name another with: make PYTHON=python3.12 …")
    if shutil.which("git") is None:
        print("note: git was not found; it is only needed to contribute")
    python = make_environment(options.venv)
    install(python, options.extras, options.torch_backend)


def make_environment(folder: Path) -> Path:
    """The environment's interpreter; the environment is made if it is not there."""
    python = folder / "bin" / "python"
    if not python.exists():
        print(f"making {folder} …", flush=True)
        try:
            venv.create(folder, with_pip=True, clear=folder.exists())
        except (subprocess.CalledProcessError, ImportError) as error:
            hint = "On Debian or Ubuntu: apt-get install python3-venv"
            sys.exit(f"Python's own venv could not be made ({error}).\n{hint}")
    return python


def install(python: Path, extras: str, torch_backend: str) -> None:
    """Install uv with pip, and everything else with uv."""
    if subprocess.run([python, "-m", "pip", "--version"], capture_output=True, check=False).returncode:
        run([python, "-m", "ensurepip", "--upgrade"])  # an environment that another tool has made
    run([python, "-m", "pip", "install", "--quiet", "--constraint", CONSTRAINTS, "uv"])
    torch = ["--torch-backend", torch_backend] if torch_backend else []
    print("installing vitascope and what it needs (minutes and some gigabytes on the first run) …", flush=True)
    run([
        python.with_name("uv"), "pip", "install", "--python", python, "--constraint", CONSTRAINTS, *torch,
        "--editable", f"{ROOT}[{extras}]",
    ])  # fmt: skip


def run(command: list[str | Path]) -> None:
    """Run a command; end with its status if it fails."""
    status = subprocess.run(command, check=False).returncode
    if status:
        sys.exit(f"failed with status {status}: {' '.join(map(str, command))}")


if __name__ == "__main__":
    main()
