"""The publish process. Its libraries are imported inside, so that an image holds no more than it needs."""

from vitascope.runtime.settings import Settings
from vitascope.runtime.telemetry import serving_metrics
from vitascope.wiring.ports import name_holder, open_ready_ports
from vitascope.wiring.signals import run_until_signal


async def run_publish(settings: Settings) -> int:
    """Public events, copies of records, and the janitor."""
    from vitascope.publish.janitor import Janitor  # noqa: PLC0415 (see the module)
    from vitascope.publish.publisher import Publisher, publish_and_clean  # noqa: PLC0415

    async with serving_metrics(settings.metrics), open_ready_ports(settings, "publish") as ports:
        keep = settings.s3.retention
        janitor = Janitor(
            ports.ledger,
            ports.bus,
            ports.registry,
            ports.store,
            clock=ports.clock,
            holder=name_holder(),
            retention=keep,
        )
        publisher = Publisher(ports.ledger, ports.bus, ports.store, ports.clock)
        await run_until_signal(publish_and_clean(publisher, janitor))
    return 0
