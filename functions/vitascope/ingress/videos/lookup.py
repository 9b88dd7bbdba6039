"""Find a caller's video: what has expired is gone, record and file together."""

from vitascope.contracts.flow import State
from vitascope.contracts.jobs import JobRecord
from vitascope.ingress.caller import Caller
from vitascope.ingress.door import Door
from vitascope.ingress.errors import raise_not_found
from vitascope.ingress.lookup import load_job


async def load_video(door: Door, caller: Caller, video: str) -> JobRecord:
    """The newest record of the caller's video.

    Raises:
        VitascopeError: as `load_job`; `not_found`, it has expired.
    """
    record = (await load_job(door, caller, video)).record
    if record.state is State.EXPIRED:
        raise_not_found("The video has expired.")
    return record
