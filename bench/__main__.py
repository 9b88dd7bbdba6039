"""Every benchmark, one after the other; each prints its figures as text and as a last line of JSON.

make bench
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODULES = (
    *("pipeline_overhead", "throughput", "noop_stages", "encode_720p", "step_overhead", "ledger", "first_video"),
    *("checkpoints", "preemption", "health"),
)


def main() -> int:
    """Run them all; the status says whether one failed."""
    env = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    failed = []
    for name in MODULES:
        print(f"== {name}", flush=True)
        if subprocess.run([sys.executable, "-m", f"bench.{name}"], cwd=ROOT, env=env, check=False).returncode:
            failed.append(name)
    print(f"failed: {', '.join(failed)}" if failed else "all ran")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
