"""What probes are told."""

import pytest

from unit.runtime.world import World, succeeding
from vitascope.contracts.flow import Stage
from vitascope.runtime.health import Health


async def test_ready_once_loaded() -> None:
    """Nothing else stands in the way."""
    world = World(Stage.DECODE, succeeding)
    health = Health(world.bus, world.make_loop())
    assert health.is_live
    assert health.compute_obstacle() == "The model is being loaded."
    health.is_loaded = True
    assert health.is_ready


@pytest.mark.parametrize("obstacle", ["disconnected", "draining", "stalled"])
async def test_not_ready_and_why(obstacle: str) -> None:
    """Each obstacle takes readiness away; only a stall asks for a restart."""
    world = World(Stage.DECODE, succeeding)
    loop = world.make_loop()
    health = Health(world.bus, loop)
    health.is_loaded = True
    if obstacle == "disconnected":
        world.broker.set_connected(connected=False)
    elif obstacle == "draining":
        await loop.drain(grace_s=0)
    else:
        loop.stalled.set()
    assert not health.is_ready
    assert health.is_live == (obstacle != "stalled")


async def test_ready_again_when_the_bus_is_back() -> None:
    """Readiness follows the connection, both ways."""
    world = World(Stage.DECODE, succeeding)
    health = Health(world.bus, world.make_loop())
    health.is_loaded = True
    world.broker.set_connected(connected=False)
    assert not health.is_ready
    world.broker.set_connected(connected=True)
    assert health.is_ready
