"""The ingress process. Its libraries are imported inside, so that an image holds no more than it needs."""

import socket

from vitascope.catalog import load_catalog
from vitascope.runtime.settings import Settings
from vitascope.wiring.ports import open_ready_ports
from vitascope.wiring.signals import watch_signals

BACKLOG = 2048
"""Connections that wait to be accepted."""


async def run_ingress(settings: Settings) -> int:
    """The HTTP door."""
    from vitascope.ingress.app import create_app  # noqa: PLC0415 (see the module)
    from vitascope.ingress.door import IngressDeps  # noqa: PLC0415
    from vitascope.ingress.reach import check_reach  # noqa: PLC0415
    from vitascope.ingress.serve import serve_door  # noqa: PLC0415
    from vitascope.publish.signing import UrlSigner  # noqa: PLC0415
    from vitascope.runtime.completeness import Completeness  # noqa: PLC0415
    from vitascope.screen.build import open_prompt_screen  # noqa: PLC0415
    from vitascope.wiring.references import open_reference_reader  # noqa: PLC0415
    from vitascope.wiring.webhooks import Outbound, make_webhook_rules  # noqa: PLC0415

    own = settings.ingress
    check_reach(own)
    async with (
        open_prompt_screen(settings.screen) as screen,
        open_ready_ports(settings, "ingress") as ports,
        open_reference_reader(settings.references, ports.store) as reader,
        Outbound(make_webhook_rules(settings.webhooks)) as outbound,
    ):
        deps = IngressDeps(
            settings=own,
            catalog=load_catalog(settings.catalog),
            ledger=ports.ledger,
            bus=ports.bus,
            registry=ports.registry,
            store=ports.store,
            signer=UrlSigner(ports.store, ports.clock, own.signed_url_s),
            completeness=Completeness(ports.ledger, ports.store),
            tenants=ports.tenants,
            references=reader,
            deliveries=ports.deliveries,
            addresses=outbound,
            clock=ports.clock,
            retention=settings.s3.retention,
            prompt_screen=screen,
        )
        with socket.create_server((own.host, own.port), backlog=BACKLOG) as listener:
            await serve_door(create_app(deps), listener, watch_signals())
    return 0
