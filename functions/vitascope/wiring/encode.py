"""The encode process. Its libraries are imported inside, so that an image holds no more than it needs."""

from vitascope.contracts.flow import Stage
from vitascope.contracts.pools import GroupState
from vitascope.runtime.scratch import own_scratch
from vitascope.runtime.settings import Settings
from vitascope.wiring.ports import open_ready_ports
from vitascope.wiring.stages import make_presence, serve_stage


async def run_encode(settings: Settings) -> int:
    """One encode process."""
    from vitascope.encode.handler import EncodeHandler  # noqa: PLC0415 (see the module)
    from vitascope.encode.screening import Screening  # noqa: PLC0415
    from vitascope.screen.build import open_output_screen  # noqa: PLC0415

    async with open_output_screen(settings.screen) as screen, open_ready_ports(settings, "encode") as ports:
        screening = Screening(screen, settings.screen.stills) if screen is not None else None
        presence = make_presence(ports, Stage.ENCODE, settings.encode.pool)

        async def make_ready() -> None:
            presence.change(state=GroupState.IDLE)

        with own_scratch(settings.encode.scratch, "encode") as scratch:
            own = settings.encode.model_copy(update={"scratch": scratch})
            handler = EncodeHandler(
                ledger=ports.ledger,
                bus=ports.bus,
                store=ports.store,
                clock=ports.clock,
                settings=own,
                screening=screening,
            )
            async with presence.beating():
                return await serve_stage(ports, handler, own, make_ready, limit=own.concurrency)
