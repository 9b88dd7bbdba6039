"""Builds the processes of the control plane: beside `vitascope.wiring`, the only module that reaches adapters."""

import asyncio

import structlog

from vitascope.adapters.jetstream import Connection, topology
from vitascope.adapters.s3 import ensure_bucket
from vitascope.contracts.failures import VitascopeError
from vitascope.runtime.beside import beside
from vitascope.runtime.settings import Settings
from vitascope.runtime.telemetry import serving_metrics
from vitascope.wiring import Role, name_holder, open_ports, run_until_signal
from vitascope_operator.scheduling.dispatcher import Dispatcher

CHECK_EVERY_S = 30.0
"""How often the streams are looked for though the connection stayed: somebody may have deleted one."""
RETRY_S = 1.0

log = structlog.get_logger(__name__)


async def run_schedule(settings: Settings) -> int:
    """The scheduler; it makes the streams and buckets that all others use, and serves metrics once they are there."""
    async with open_ports(settings, "schedule") as ports:
        await topology.ensure(ports.connection, settings.nats.replicas)
        await ensure_bucket(ports.s3, settings.s3.retention)
        dispatcher = Dispatcher(
            ports.ledger,
            ports.bus,
            ports.registry,
            ports.clock,
            store=ports.store,
            holder=name_holder(),
            lease_s=settings.scheduler.lease_s,
            group_lease_s=settings.scheduler.group_lease_s,
        )
        streams = beside(keep_streams(ports.connection, settings.nats.replicas), name="keep streams")
        async with serving_metrics(settings.metrics), streams:
            await run_until_signal(dispatcher.run())
    return 0


async def keep_streams(connection: Connection, replicas: int) -> None:
    """Make the streams and buckets anew whenever they are missing; ends only by cancellation.

    Every scheduler process does it, leading or not, after each new connection: a server that comes back without its
    files has no leases either, so nobody leads.
    """
    made = 0  # no connection's number: the first look is at once
    while True:
        if connection.epoch == made:
            await connection.wait_anew(CHECK_EVERY_S)
        epoch = connection.epoch
        try:
            created = await topology.ensure(connection, replicas)
        except VitascopeError as error:
            log.warning("streams cannot be checked", error=str(error))
            await asyncio.sleep(RETRY_S)
            continue
        made = epoch
        if created:
            log.error("streams were lost, and are made anew", streams=list(created))


ROLES: dict[str, Role] = {"schedule": run_schedule}
