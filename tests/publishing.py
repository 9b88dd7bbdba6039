"""The publish process's work inside a test."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from vitascope.publish.janitor import Janitor
from vitascope.publish.publisher import Publisher, publish_and_clean


@asynccontextmanager
async def publishing(publisher: Publisher, janitor: Janitor) -> AsyncIterator[None]:
    """The janitor beside the publisher, as the process runs them; both must last until the block ends."""
    task = asyncio.create_task(publish_and_clean(publisher, janitor), name="publish under test")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()
