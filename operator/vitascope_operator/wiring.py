"""Builds the processes of the control plane: beside `vitascope.wiring`, the only module that reaches adapters."""

from vitascope.adapters.jetstream import topology
from vitascope.adapters.s3 import ensure_bucket
from vitascope.runtime.settings import Settings
from vitascope.runtime.telemetry import serving_metrics
from vitascope.wiring import Role, name_holder, open_ports, run_until_signal
from vitascope_operator.scheduling.dispatcher import Dispatcher


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


ROLES: dict[str, Role] = {"schedule": run_schedule}
