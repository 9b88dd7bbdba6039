"""The deliver process. Its libraries are imported inside, so that an image holds no more than it needs."""

from datetime import timedelta

from vitascope.runtime.settings import Settings
from vitascope.runtime.telemetry import serving_metrics
from vitascope.wiring.ports import name_holder, open_ready_ports
from vitascope.wiring.signals import run_until_signal


async def run_deliver(settings: Settings) -> int:
    """Webhooks."""
    from vitascope.adapters.jetstream import JetStreamEventFeed  # noqa: PLC0415 (see the module)
    from vitascope.publish.webhooks import WebhookDeps, WebhookService  # noqa: PLC0415
    from vitascope.wiring.webhooks import Outbound, make_webhook_rules  # noqa: PLC0415

    own = settings.webhooks
    async with (
        serving_metrics(settings.metrics),
        open_ready_ports(settings, "deliver") as ports,
        Outbound(make_webhook_rules(own)) as outbound,
    ):
        deps = WebhookDeps(
            feed=JetStreamEventFeed(ports.connection),
            book=ports.deliveries,
            tenants=ports.tenants,
            ledger=ports.ledger,
            registry=ports.registry,
            sender=outbound,
            clock=ports.clock,
            holder=name_holder(),
            give_up_after=timedelta(days=own.give_up_days),
            disable_after=timedelta(days=own.disable_after_days),
        )
        await run_until_signal(WebhookService(deps).run())
    return 0
