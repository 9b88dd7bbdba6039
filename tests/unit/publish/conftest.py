"""Ports in memory, and jobs that are put into the ledger."""

import pytest
import pytest_asyncio

from doors import World
from unit.publish.kept import Kept


@pytest.fixture
def world() -> World:
    """Ledger, bus, registry, store and clock in memory."""
    return World()


@pytest_asyncio.fixture
async def kept() -> Kept:
    """The same with one time for all, in a service that is at work."""
    service = Kept()
    await service.complete()
    return service
