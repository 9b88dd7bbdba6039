"""The processes by name, and how one is run to its end."""

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine, Mapping

from pydantic import ValidationError

from vitascope.catalog import CatalogInvalid
from vitascope.contracts.failures import VitascopeError
from vitascope.runtime.settings import Settings, name_settings
from vitascope.runtime.telemetry import configure_logs
from vitascope.wiring.decode import run_decode
from vitascope.wiring.deliver import run_deliver
from vitascope.wiring.denoise import run_denoise
from vitascope.wiring.encode import run_encode
from vitascope.wiring.ingress import run_ingress
from vitascope.wiring.publish import run_publish

Role = Callable[[Settings], Coroutine[None, None, int]]


def run_role(role: str, roles: Mapping[str, Role] | None = None) -> int:
    """Run one process to its end; its exit status. What keeps it from starting is said in one line.

    The status is `os.EX_CONFIG` if starting again would fail again.
    """
    try:
        settings = Settings()
        configure_logs(settings.log, role)
        return asyncio.run((roles or ROLES)[role](settings))
    except ValidationError as error:
        return _refuse(role, name_settings(error), os.EX_CONFIG)
    except (CatalogInvalid, ValueError) as error:
        return _refuse(role, str(error), os.EX_CONFIG)
    except (VitascopeError, OSError) as error:
        return _refuse(role, str(error), 1)


ROLES: dict[str, Role] = {
    "ingress": run_ingress,
    "denoise": run_denoise,
    "decode": run_decode,
    "encode": run_encode,
    "publish": run_publish,
    "deliver": run_deliver,
}


def _refuse(role: str, why: str, status: int) -> int:
    print(f"{role}: cannot start: {why}", file=sys.stderr)  # noqa: T201 (for who reads no logs)
    return status
