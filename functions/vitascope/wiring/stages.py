"""What the processes of all stages have: a KServe face, and a row by which others see them."""

import os
from collections.abc import Awaitable, Callable

from vitascope.contracts.flow import Stage
from vitascope.contracts.pools import GroupRow, GroupState, presence_pool
from vitascope.runtime.presence import Presence
from vitascope.runtime.settings import DecodeSettings, DenoiseSettings, EncodeSettings
from vitascope.runtime.stage import StageHandler
from vitascope.wiring.ports import Ports, name_holder


async def serve_stage(
    ports: Ports,
    handler: StageHandler,
    own: DenoiseSettings | DecodeSettings | EncodeSettings,
    load: Callable[[], Awaitable[None]],
    *,
    group: str | None = None,
    limit: int = 1,
) -> int:
    """One stage behind its KServe face, until a signal; the exit status."""
    from vitascope.runtime.serving import StageService  # noqa: PLC0415 (see the module)
    from vitascope.runtime.stage_loop import StageLoop  # noqa: PLC0415 (as above)

    loop = StageLoop(handler, ports.bus, ports.ledger, clock=ports.clock, pool=own.pool, group=group, limit=limit)
    service = StageService(
        loop, ports.bus, ports.ledger, clock=ports.clock, name=handler.stage, load=load, grace_s=own.grace_s
    )
    return await service.serve(own.host, own.port)


def make_presence(ports: Ports, stage: Stage, pool: str) -> Presence:
    """The row by which readiness sees that a decode or encode process is there."""
    row = GroupRow(
        pool=presence_pool(stage, pool),
        group=f"p{os.getpid()}",
        models=(),
        state=GroupState.STARTING,
        holder=name_holder(),
        seen=ports.clock.now(),
    )
    return Presence(ports.registry, ports.clock, row)
