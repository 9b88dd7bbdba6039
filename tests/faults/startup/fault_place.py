"""Where the harness and a process of the pipeline leave files for each other, and which process this is."""

import os
from pathlib import Path

FOLDER = Path(os.environ.get("FAULTS_FOLDER", "."))


def child_name() -> str:
    """The name under which the supervisor knows this process."""
    return os.environ.get("VITASCOPE_RUN", "").rpartition(":")[2]
