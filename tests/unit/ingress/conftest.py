"""One open door over empty ports in memory, or two of which one goes half-way."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
import pytest_asyncio
from fastapi import FastAPI
from structlog.testing import capture_logs

from doors import World, open_door, open_pair

GONE_AFTER = 5


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


@pytest.fixture
def twin(world: World) -> FastAPI:
    """Another replica."""
    return world.make_app()


@pytest_asyncio.fixture(params=["one", "pair"])
async def client(request: pytest.FixtureRequest, app: FastAPI, twin: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    """A client of that replica; or of it and another in turns, of which only that one is left after a few requests."""
    is_pair = request.param == "pair"
    opened = open_pair(twin, app, gone_after=GONE_AFTER) if is_pair else open_door(app)
    async with opened as one:
        yield one
