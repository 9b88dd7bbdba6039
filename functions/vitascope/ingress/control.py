"""Tell the group that works on a job to look at its record now."""

import structlog

from vitascope.contracts.events import Control
from vitascope.contracts.failures import VitascopeError
from vitascope.contracts.jobs import JobRecord
from vitascope.ingress.door import Door

log = structlog.get_logger(__name__)


async def tell_group(door: Door, record: JobRecord) -> None:
    """The shortcut to the record's group, if it has one: the ledger would show it the change a moment later."""
    if record.run.group is None:
        return
    try:
        await door.deps.bus.send_control(record.run.group, Control(job=record.id, attempt=record.run.attempt))
    except VitascopeError as error:
        log.warning("group not told", job=record.id, stage="ingress", attempt=record.run.attempt, error=str(error))
