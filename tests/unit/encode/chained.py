"""Looking at and into a chain of stages, for the tests of the encode handler."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np

from unit.denoise.chain import Chain, settled
from unit.encode.films import decode_rgb_bt709
from vitascope.contracts.flow import State
from vitascope.contracts.jobs import JobRecord

OUTPUTS = ["outputs/1/spritesheet.jpg", "outputs/1/thumbnail.jpg", "outputs/1/video.mp4"]


def hook_store(chain: Chain, verb: str, key: str, act: Callable[[], Awaitable[object]]) -> None:
    """Has `act` run right before the store does something with a key."""
    original = getattr(chain.store, verb)

    async def hooked(first: object, *args: Any) -> object:
        if first == key:
            await act()
            await settled()
        return await original(first, *args)

    setattr(chain.store, verb, hooked)


def greys_of(video: bytes, path: Path) -> list[float]:
    """Mean of each frame of a film."""
    path.write_bytes(video)
    return [float(np.mean(frame)) for frame in decode_rgb_bt709(path)]


async def succeeded(chain: Chain, job: str, *, attempt: int = 1) -> JobRecord:
    """The record of a job that has succeeded, with just its output left in the store."""
    record = await chain.record(job)
    assert record.state is State.SUCCEEDED
    assert chain.keys() == [key.replace("/1/", f"/{attempt}/") for key in OUTPUTS]
    return record
