"""What a process says when one of its servers is missing at its start."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from servers import RunningNats

DEADLINE_S = 60.0


async def run_role(module: str, role: str, env: dict[str, str], cwd: Path) -> tuple[int | None, str]:
    """Status and standard error of a process that is expected to end by itself."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, role),
        env={**os.environ, **env},
        cwd=cwd,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(DEADLINE_S):
            _, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode, errors.decode()


@pytest.mark.parametrize(
    ("module", "role"),
    [
        ("vitascope", "ingress"),
        ("vitascope", "publish"),
        ("vitascope", "deliver"),
        ("vitascope", "encode"),
        ("vitascope_operator", "schedule"),
    ],
    ids=["ingress", "publish", "deliver", "encode", "schedule"],
)
async def test_store_out_of_reach_is_said_at_once(
    nats_server: RunningNats, tmp_path: Path, module: str, role: str
) -> None:
    """NATS is there, S3 is not: a clear line with the address, status 1, no trace."""
    env = {
        "VITASCOPE_NATS__URL": nats_server.plain_url,
        "VITASCOPE_NATS__USER": nats_server.user,
        "VITASCOPE_NATS__PASSWORD": nats_server.password,
        "VITASCOPE_S3__ENDPOINT": "http://127.0.0.1:9",
        "VITASCOPE_S3__ACCESS_KEY": "a",
        "VITASCOPE_S3__SECRET_KEY": "b",
        "VITASCOPE_S3__CONNECT_TIMEOUT_S": "1",
    }
    status, errors = await run_role(module, role, env, tmp_path)
    assert (1, True) == (status, "127.0.0.1:9" in errors), errors
    assert "Traceback" not in errors.splitlines()[-1]


async def test_missing_keys_of_the_store_are_named(nats_server: RunningNats, tmp_path: Path) -> None:
    """Nothing could be stored without them, so the process ends, and need not be tried again."""
    env = {
        "VITASCOPE_NATS__URL": nats_server.plain_url,
        "VITASCOPE_NATS__USER": nats_server.user,
        "VITASCOPE_NATS__PASSWORD": nats_server.password,
    }
    status, errors = await run_role("vitascope", "publish", env, tmp_path)
    assert (os.EX_CONFIG, True) == (status, "VITASCOPE_S3__ACCESS_KEY" in errors), errors


async def test_scheduler_names_a_bad_setting(tmp_path: Path) -> None:
    """As every other role does, and with the status that tells a supervisor not to try again."""
    status, errors = await run_role("vitascope_operator", "schedule", {"VITASCOPE_SCHEDULER__LEASE_S": "x"}, tmp_path)
    assert (os.EX_CONFIG, True) == (status, "VITASCOPE_SCHEDULER__LEASE_S" in errors), errors


async def test_a_door_without_keys_opens_on_loopback_only(tmp_path: Path) -> None:
    """Bound elsewhere it does not start, whatever its servers do, and names what would help."""
    status, errors = await run_role("vitascope", "ingress", {"VITASCOPE_INGRESS__HOST": "0.0.0.0"}, tmp_path)
    names = ["VITASCOPE_INGRESS__HOST", "VITASCOPE_INGRESS__API_KEY", "VITASCOPE_INGRESS__JWT__ISSUER"]
    assert (os.EX_CONFIG, names) == (status, [name for name in names if name in errors]), errors
