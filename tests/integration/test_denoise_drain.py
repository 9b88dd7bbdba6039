"""SIGTERM of a real denoise process in the middle of a step."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).parents[1] / "denoise_service.py"
LIMIT_S = 60.0
"""What takes longer has failed; the imports take some seconds."""


async def hear(child: asyncio.subprocess.Process) -> dict[str, Any]:
    """The next thing that the process tells."""
    assert child.stdout is not None
    async with asyncio.timeout(LIMIT_S):
        told: dict[str, Any] = json.loads(await child.stdout.readline())
        return told


async def test_sigterm_in_a_step_keeps_that_step(tmp_path: Path) -> None:
    """The job is back in the queue with the step that was running; its event is gone, and the process ends well."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    with (tmp_path / "log").open("wb") as log:
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            SCRIPT,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            env={**os.environ, "PYTHONPATH": path},
        )
        try:
            assert {"what": "in step", "step": 3} == await hear(child)
            child.send_signal(signal.SIGTERM)
            assert {
                "what": "left",
                "state": "queued",
                "reason": "drained",
                "step": 3,
                "ran": [1, 2, 3],
                "has_work": False,
            } == await hear(child)
            async with asyncio.timeout(LIMIT_S):
                assert 0 == await child.wait()
        finally:
            if child.returncode is None:
                child.kill()
                await child.wait()
