"""One open door, and pictures to send to it."""

import io
from collections.abc import AsyncIterator
from typing import Any

import av
import httpx
import numpy as np
import pytest
import pytest_asyncio
from PIL import Image

from doors import World, open_door
from vitascope.catalog import Catalog
from vitascope.contracts.models import Capabilities, LatentEdit, Task

VIDEOS = "/v1/videos"


def make_png(width: int = 8, height: int = 6) -> bytes:
    content = io.BytesIO()
    Image.new("RGB", (width, height), (200, 30, 30)).save(content, "PNG")
    return content.getvalue()


def make_mp4(num_frames: int = 22) -> bytes:
    content = io.BytesIO()
    with av.open(content, "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=8)
        stream.width, stream.height, stream.pix_fmt = 64, 64, "yuv420p"
        for grey in range(num_frames):
            frame = av.VideoFrame.from_ndarray(np.full((64, 64, 3), 8 * grey % 256, np.uint8), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return content.getvalue()


def make_able(world: World, *tasks: Task, **abilities: Any) -> Catalog:
    """The demo model, if it could do more."""
    entry = world.catalog.default
    changes = {"tasks": (Task.T2V, *tasks), "capabilities": Capabilities(**abilities)}
    return Catalog((entry.model_copy(update=changes),))


@pytest.fixture
def i2v(world: World) -> Catalog:
    """It starts from images or from a video."""
    return make_able(world, Task.I2V, Task.V2V, max_images=2, max_videos=1)


@pytest.fixture
def edit(world: World) -> Catalog:
    """It keeps masked parts of a source; its clips have 22 frames."""
    entry = make_able(world, Task.EDIT, latent_edit=LatentEdit()).default
    bucket = entry.buckets[0].model_copy(update={"width": 64, "height": 64, "num_frames": 22})
    defaults = entry.defaults.model_copy(update={"width": 64, "height": 64, "num_frames": 22})
    return Catalog((entry.model_copy(update={"buckets": (bucket,), "defaults": defaults}),))


@pytest_asyncio.fixture
async def able(world: World, i2v: Catalog) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a door whose model starts from images or a video."""
    async with open_door(world.make_app(catalog=i2v)) as opened:
        yield opened
