"""What `vitascope doctor` sees of a running service: the one that the environment names, else the local run.

The look is taken by a process of its own, since only that can be ended at once if a server hangs, and since its
libraries take as long to import as all others of the command line.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from vitascope.contracts.failures import VitascopeError
from vitascope.local.folder import Credentials
from vitascope.local.pipeline import name_servers
from vitascope.local.ports import LOOPBACK
from vitascope.local.running import find_run
from vitascope.local.servers import Servers
from vitascope.publish.survey import Survey, survey
from vitascope.runtime.settings import Settings, name_settings

NAMES_A_SERVICE = "VITASCOPE_NATS__URL"
"""Whoever sets this variable means the service that it leads to."""
CONNECT_TIMEOUT_S = 3.0
"""A person sits there and waits."""
DEADLINE_S = 60.0
"""A service of a hundred thousand jobs is looked through in less; servers that hang are not waited for."""


class AuditFailed(Exception):
    """The service could not be looked at; the text says why."""


def find_service(data: Path) -> dict[str, str] | None:
    """The environment of a process of the service that is meant; None if there is none.

    Raises:
        AuditFailed: the files of the local run cannot be read.
    """
    if NAMES_A_SERVICE in os.environ:
        return dict(os.environ)
    if find_run(data) is None:
        return None
    try:
        return {**os.environ, **name_servers(_load_servers(data / "run"))}
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise AuditFailed(f"the files of the run in {data} cannot be read: {type(error).__name__}") from error


def audit(env: Mapping[str, str]) -> Survey:
    """Look through a service, for at most `DEADLINE_S`.

    Raises:
        AuditFailed: a server is away, or all of it takes too long.
    """
    command = [sys.executable, "-c", f"import {__name__}; {__name__}.tell_survey()"]
    try:
        looked = subprocess.run(command, env=env, capture_output=True, text=True, timeout=DEADLINE_S, check=False)  # noqa: S603 (fixed text)
    except subprocess.TimeoutExpired as error:
        raise AuditFailed(f"no answer in {DEADLINE_S:g} s") from error
    if looked.returncode:
        raise AuditFailed((looked.stderr.strip().splitlines() or [f"status {looked.returncode}"])[-1])
    return Survey.model_validate_json(looked.stdout)


def tell_survey() -> None:
    """What the process of `audit` does: print the survey; why there is none is its last line on standard error."""
    try:
        settings = Settings()
        nats = settings.nats.model_copy(update={"connect_timeout_s": CONNECT_TIMEOUT_S})
        s3 = settings.s3.model_copy(update={"connect_timeout_s": CONNECT_TIMEOUT_S})
        found = asyncio.run(_look(settings.model_copy(update={"nats": nats, "s3": s3})))
    except ValidationError as error:
        sys.exit(name_settings(error))
    except (VitascopeError, ValueError, OSError) as error:
        sys.exit(" ".join(str(error).split()))
    sys.stdout.write(found.model_dump_json())


async def _look(settings: Settings) -> Survey:
    from vitascope.wiring import open_ready_ports  # noqa: PLC0415 (see the module)

    async with open_ready_ports(settings, "doctor") as ports:
        return await survey(ports.ledger, ports.bus, ports.store, ports.clock)


def _load_servers(run: Path) -> Servers:
    ports = json.loads((run / "ports.json").read_text(encoding="utf-8"))
    secrets = Credentials(**json.loads((run / "credentials.json").read_text(encoding="utf-8")))
    return Servers(f"nats://{LOOPBACK}:{int(ports['nats'])}", f"http://{LOOPBACK}:{int(ports['s3'])}", secrets)
