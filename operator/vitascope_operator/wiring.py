"""Builds the processes of the control plane: beside `vitascope.wiring`, the only module that reaches adapters."""

import asyncio
import sys
from collections.abc import Callable, Coroutine

from pydantic import ValidationError

from vitascope.adapters.jetstream import topology
from vitascope.adapters.s3 import ensure_bucket
from vitascope.contracts.failures import VitascopeError
from vitascope.runtime.settings import Settings
from vitascope.runtime.telemetry import configure_logs, serving_metrics
from vitascope.wiring import name_holder, open_ports, run_until_signal
from vitascope_operator.scheduling.dispatcher import Dispatcher


def run_role(role: str) -> int:
    """Run one process to its end; its exit status. What keeps it from starting is said in one line."""
    try:
        settings = Settings()
        configure_logs(settings.log, role)
        return asyncio.run(ROLES[role](settings))
    except (ValidationError, VitascopeError, OSError) as error:
        print(f"{role}: cannot start: {error}", file=sys.stderr)  # noqa: T201 (for who reads no logs)
        return 1


async def run_schedule(settings: Settings) -> int:
    """The scheduler; it makes the streams and buckets that all others use, and serves metrics once they are there."""
    async with open_ports(settings, "schedule") as ports:
        await topology.ensure(ports.connection, settings.nats.replicas)
        await ensure_bucket(ports.s3, settings.s3.retention_days)
        dispatcher = Dispatcher(
            ports.ledger,
            ports.bus,
            ports.registry,
            ports.clock,
            holder=name_holder(),
            lease_s=settings.scheduler.lease_s,
            group_lease_s=settings.scheduler.group_lease_s,
        )
        async with serving_metrics(settings.metrics):
            await run_until_signal(dispatcher.run())
    return 0


ROLES: dict[str, Callable[[Settings], Coroutine[None, None, int]]] = {"schedule": run_schedule}
