"""What `vitascope doctor` looks at: each check says what was found and, if it is wrong, how to mend it."""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from vitascope.local import nats_server, s3_server
from vitascope.local.audit import AuditFailed, audit, find_service
from vitascope.local.errors import LocalRunError
from vitascope.local.folder import MIN_FREE_BYTES
from vitascope.local.ports import is_port_free
from vitascope.local.programs import Version, find_program
from vitascope.local.running import find_run
from vitascope.publish.survey import Findings, Survey

PROBE_DEADLINE_S = 120.0
DEFAULT_PORT = 8765
PROBES = {
    "torch": "import torch; print(torch.__version__, torch.accelerator.device_count(), 'accelerator(s)')",
    "diffusers": "import accelerate, diffusers, ftfy, safetensors, transformers; print(diffusers.__version__)",
    "codecs": "import av; av.codec.Codec('libx264', 'w'); av.codec.Codec('aac', 'w'); print('libx264, aac')",
}
SERVICE = "service's stores"
JANITOR = "The publish process removes it, within an hour or two; its log says what it cannot do."
SCHEDULER = "The scheduler publishes it anew within seconds; look at its log if this stays."
REINSTALL = "make setup, or: pip install 'vitascope[local]'"


class CheckState(StrEnum):
    """Whether something is there."""

    OK = "ok"
    WARNING = "warning"
    MISSING = "missing"


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    name: str
    state: CheckState
    found: str
    fix: str = ""


def run_checks(data: Path) -> list[Check]:
    """Look at everything that a local run needs; takes some seconds, since torch is imported once."""
    checks: list[Callable[[], Check]] = [
        check_python,
        *(partial(check_import, name) for name in PROBES),
        lambda: check_program("nats-server", nats_server.PACKAGE, nats_server.MINIMUM_VERSION, "--version"),
        lambda: check_program("weed", s3_server.PACKAGE, s3_server.MINIMUM_VERSION, "version"),
        check_demo_model,
        lambda: check_folder(data),
        lambda: check_port(data),
    ]
    return [*(check() for check in checks), *check_service(data)]


def check_python() -> Check:
    """The interpreter's version."""
    return Check("python", CheckState.OK, sys.version.split()[0])


def check_import(name: str) -> Check:
    """Whether a library works, tried in a process of its own: a broken one may crash its importer."""
    command = [sys.executable, "-c", PROBES[name]]
    try:
        tried = subprocess.run(command, capture_output=True, text=True, timeout=PROBE_DEADLINE_S, check=False)  # noqa: S603 (fixed text)
    except subprocess.TimeoutExpired:
        return Check(name, CheckState.MISSING, f"no answer in {PROBE_DEADLINE_S:g} s", REINSTALL)
    if tried.returncode:
        last = (tried.stderr.strip().splitlines() or [f"status {tried.returncode}"])[-1]
        return Check(name, CheckState.MISSING, last, REINSTALL)
    return Check(name, CheckState.OK, tried.stdout.strip())


def check_program(program: str, package: str, minimum: Version, version_argument: str) -> Check:
    """Whether a server's program is there and new enough."""
    finding = find_program(program, package=package, minimum=minimum, version_argument=version_argument)
    try:
        found = asyncio.run(finding)
    except LocalRunError as error:
        return Check(program, CheckState.MISSING, error.why, error.remedy)
    return Check(program, CheckState.OK, str(found))


def check_demo_model() -> Check:
    """Whether the model that ships is whole."""
    spec = find_spec("vitascope.demo_model")
    folder = Path(spec.origin).parent / "model" if spec and spec.origin else None
    weights = sorted(folder.rglob("*.safetensors")) if folder else []
    if not weights:
        return Check("demo model", CheckState.MISSING, "its weights are not installed", REINSTALL)
    size_mb = sum(path.stat().st_size for path in weights) / 1e6
    return Check("demo model", CheckState.OK, f"{len(weights)} weight files, {size_mb:.1f} MB")


def check_folder(data: Path) -> Check:
    """Whether the data folder can be written and has room."""
    existing = next(path for path in (data, *data.parents) if path.exists())
    free_bytes = shutil.disk_usage(existing).free
    found = f"{data}, {free_bytes / 1e9:.1f} GB free"
    if not os.access(existing, os.W_OK):
        return Check("data folder", CheckState.MISSING, f"{data} cannot be written", "Set VITASCOPE_DATA.")
    if free_bytes < MIN_FREE_BYTES:
        return Check("data folder", CheckState.MISSING, found, "Make room, or set VITASCOPE_DATA to another disk.")
    return Check("data folder", CheckState.OK, found)


def check_service(data: Path) -> list[Check]:
    """What lies about in a running service, if there is one, and which jobs stand still."""
    try:
        env = find_service(data)
        return list_findings(audit(env)) if env is not None else []
    except AuditFailed as error:
        fix = "Look at `vitascope status` and at the logs of NATS and the S3 server."
        return [Check(SERVICE, CheckState.WARNING, f"cannot be looked at: {error}", fix)]


def list_findings(survey: Survey) -> list[Check]:
    """One check for each kind of thing that was found, or one that says that there is nothing."""
    found = [
        Check("orphans", CheckState.WARNING, describe(findings), JANITOR)
        for findings in survey.orphans
        if findings.count
    ]
    if survey.stalled.count:
        found.append(Check("jobs", CheckState.WARNING, describe(survey.stalled), SCHEDULER))
    if not survey.is_complete:
        why = "the ledger is not yet rebuilt from its copies"
        found.append(Check(SERVICE, CheckState.WARNING, why, "The scheduler does it; look at its log if this stays."))
    return found or [Check(SERVICE, CheckState.OK, "no orphans, and every job under way has its event")]


def describe(findings: Findings) -> str:
    """How many, how large, and which."""
    size = f", {findings.bytes / 1e6:.2f} MB" if findings.bytes else ""
    more = findings.count - len(findings.names)
    rest = f" and {more} more" if more else ""
    return f"{findings.kind}: {findings.count}{size}; {', '.join(findings.names)}{rest}"


def check_port(data: Path) -> Check:
    """Whether the default port is free, or ours."""
    if (running := find_run(data)) is not None:
        return Check("service", CheckState.OK, f"runs at {running.url}")
    if is_port_free(DEFAULT_PORT):
        return Check("port", CheckState.OK, f"{DEFAULT_PORT} is free")
    return Check("port", CheckState.WARNING, f"{DEFAULT_PORT} is taken", "vitascope up --port N")
