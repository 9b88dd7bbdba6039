"""From a fresh clone to the first finished video: seconds, and the size of the environment.

    python bench/first_video.py [--cold] [--make-option PYTHON=python3.12 …]

Clones the repository that this file lies in into a temporary folder and runs `make demo` there. `--cold` gives uv and
pip empty caches, so that everything is downloaded.
"""

import argparse
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--make-option", action="append", default=[])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "clone"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        caches = {"UV_CACHE_DIR": f"{folder}/uv", "PIP_CACHE_DIR": f"{folder}/pip"} if options.cold else {}
        setup_s = run_make(clone, "setup", options.make_option, caches)
        demo_s = run_make(clone, "demo", options.make_option, caches)
        size_bytes = int(subprocess.check_output(["du", "-sb", str(clone / ".venv")]).split()[0])
        assert (clone / "demo.mp4").stat().st_size > 0
    figures = {"cold": options.cold, "setup_s": setup_s, "demo_s": demo_s, "venv_bytes": size_bytes}
    print(f"set-up {setup_s:.0f} s, first video {demo_s:.0f} s more; .venv has {size_bytes / 1e9:.2f} GB")
    print(json.dumps(figures))


def run_make(clone: Path, target: str, options: list[str], caches: dict[str, str]) -> float:
    """Seconds of one target."""
    env = {**os.environ, **caches, "VITASCOPE_DATA": str(clone / "data")}
    began_s = time.perf_counter()
    subprocess.run(["make", "--silent", target, *options], cwd=clone, env=env, check=True)
    return time.perf_counter() - began_s


if __name__ == "__main__":
    main()
