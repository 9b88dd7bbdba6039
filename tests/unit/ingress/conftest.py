"""One open door over empty ports in memory."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
import pytest_asyncio
from fastapi import FastAPI
from structlog.testing import capture_logs

from doors import World, open_door


@pytest.fixture(autouse=True)
def logs() -> Iterator[list[Any]]:
    """What is logged, as dicts, instead of on the terminal: there every traceback would be drawn with all locals."""
    with capture_logs() as lines:
        yield lines  # type: ignore[misc]  # structlog's own mutable mappings


@pytest.fixture
def world() -> World:
    """Ledger, bus, registry, store and clock in memory."""
    return World()


@pytest.fixture
def app(world: World) -> FastAPI:
    """One replica with default settings."""
    return world.make_app()


@pytest_asyncio.fixture
async def client(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    """A client of that replica."""
    async with open_door(app) as opened:
        yield opened
