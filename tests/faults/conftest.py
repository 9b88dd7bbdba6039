"""One pipeline whose parts are killed, with the real model, and one behind relays, with the quick one."""

import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from faults.injectors import Scene
from faults.plant import PlantOptions, running_plant
from faults.witness import Witness
from faults.workload import Clients, References
from pipeline import Up, running_up

SEED = 20_26


@pytest.fixture(scope="module")
def slow_up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """A pipeline in which a step takes at least a fifth of a second and a checkpoint is made every second step."""
    slow = {"VITASCOPE_DENOISE__MIN_STEP_S": "0.2", "VITASCOPE_DENOISE__CHECKPOINT_EVERY": "2"}
    with running_up(tmp_path_factory.mktemp("slow") / "data", **slow) as running:
        yield running


@asynccontextmanager
async def running_scene(path: Path, name: str) -> AsyncIterator[Scene]:
    """A pipeline that faults of the fixed set are played on, with what its jobs give without a fault."""
    options = PlantOptions(step_s=0.15, chunk_s=0.12)
    async with running_plant(path, options, SEED) as plant, Witness(plant.nats_url) as witness:
        made = Scene(
            plant, witness, Clients(plant.url, plant.receiver.url, random.Random(SEED), name), References(), length=0.0
        )
        await made.references.make(made.clients)
        yield made
        await made.clients.http.aclose()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    """The pipeline that most tests share."""
    async with running_scene(tmp_path_factory.mktemp("plant"), "fixed") as made:
        yield made


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def lanes(scene: Scene, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Scene, Scene]]:
    """Two pipelines: most of a fault's time is waiting, so two are played at a time."""
    async with running_scene(tmp_path_factory.mktemp("lane"), "lane") as made:
        yield scene, made
