"""`POST /v1/video-jobs/estimate`, measured seconds in `/v1/models`, and pools in `/v1/queue`."""

from datetime import datetime
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from doors import JOBS, PROMPT, World, get_door, open_door, read_error, submit
from unit.ingress.test_params import make_able
from vitascope.catalog import Catalog
from vitascope.contracts.models import Task
from vitascope.contracts.pools import GroupRow, GroupState
from vitascope.ingress.estimate import measure_step

ESTIMATE = f"{JOBS}/estimate"


def _row(world: World, step_s: dict[str, float], group: str = "g0", **changes: Any) -> GroupRow:
    wished: dict[str, Any] = {
        "pool": "default",
        "group": group,
        "models": ("tiny-wan",),
        "state": GroupState.BUSY,
        "step_s": step_s,
        "holder": "h",
        "seen": world.time.now(),
    }
    return GroupRow(**wished | changes)


async def _estimate(client: httpx.AsyncClient, **body: Any) -> dict[str, Any]:
    response = await client.post(ESTIMATE, json=PROMPT | body)
    assert response.status_code == 200, response.text
    view: dict[str, Any] = response.json()
    return view


async def test_an_estimate_is_what_the_job_is_then(world: World, client: httpx.AsyncClient) -> None:
    """Price, place and effective values; and nothing was kept."""
    await submit(client)
    estimate = await _estimate(client, size="64x64", frames=17, steps=30, tier="batch")
    assert 1 == await world.count_jobs()
    made = await submit(client, size="64x64", frames=17, steps=30, tier="batch")
    shared = set(estimate) & set(made) - {"object", "reason"}
    assert {name: made[name] for name in shared} == {name: estimate[name] for name in shared}
    assert {"estimated_gpu_seconds", "price_units", "queue_position", "estimated_start", "fps", "tier"} <= shared
    assert ("64x64_17", 1, 2) == (estimate["bucket"], estimate["group_size"], estimate["queue_position"])


async def test_measured_seconds_beat_the_cost_model(world: World, app: FastAPI) -> None:
    """As soon as a live group has made such a step."""
    async with open_door(app) as client:
        modelled = await _estimate(client, steps=10)
        assert (None, modelled["estimated_gpu_seconds"]) == (modelled["measured_step_s"], modelled["denoise_seconds"])
        assert modelled["estimated_start"] is None
        get_door(app).groups.apply(_row(world, {modelled["bucket"]: 0.5}))
        measured = await _estimate(client, steps=10)
        assert (0.5, 5.0) == (measured["measured_step_s"], measured["denoise_seconds"])
        assert datetime.fromisoformat(measured["estimated_start"]) >= world.time.now()


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        pytest.param({"steps": 0}, 400, "invalid_request", id="bounds"),
        pytest.param({"size": "65x64"}, 400, "shape_not_allowed", id="shape"),
        pytest.param({"stpes": 4}, 400, "unknown_field", id="name"),
        pytest.param({"lora": {"name": "x"}}, 400, "capability_missing", id="ability"),
        pytest.param({"image_reference": {"image_url": "http://a/b"}}, 400, "capability_missing", id="media"),
        pytest.param({"model": "other"}, 404, "model_not_found", id="model"),
        pytest.param({"prompt": ""}, 400, "invalid_request", id="prompt"),
    ],
)
async def test_what_would_be_refused_is_refused(
    client: httpx.AsyncClient, body: dict[str, Any], status: int, code: str
) -> None:
    """With the same words."""
    refused = read_error(await client.post(ESTIMATE, json=PROMPT | body), status, code)
    assert refused == read_error(await client.post(JOBS, json=PROMPT | body), status, code)


@pytest.mark.parametrize("tasks", [(Task.T2V, Task.I2V), (Task.I2V,)], ids=["text or image", "image only"])
async def test_media_is_not_fetched(world: World, tasks: tuple[Task, ...]) -> None:
    """It has no part in the price; a model that needs some is estimated as if it were there."""
    entry = make_able(world).model_copy(update={"tasks": tasks})
    async with open_door(world.make_app(catalog=Catalog((entry,)))) as client:
        view = await _estimate(client, image_reference={"image_url": "http://192.0.2.1/none.png"})
    assert view["price_units"] > 0


async def test_models_say_what_they_can_and_how_long_it_took(world: World, app: FastAPI) -> None:
    """Per shape: price from the cost model, seconds from the groups that are alive."""
    async with open_door(app) as client:
        get_door(app).groups.apply(_row(world, {"64x64_17": 0.25}))
        (model,) = (await client.get("/v1/models")).json()["data"]
    assert (0, False) == (model["capabilities"]["max_images"], model["capabilities"]["has_lora"])
    buckets = {bucket["name"]: bucket for bucket in model["buckets"]}
    measured = buckets.pop("64x64_17")
    assert (0.25, 0.25 * model["defaults"]["num_inference_steps"]) == (
        measured["measured_step_s"],
        measured["measured_seconds"],
    )
    assert {(None, None)} == {(bucket["measured_step_s"], bucket["measured_seconds"]) for bucket in buckets.values()}


def test_the_median_of_the_groups_that_have_the_model(world: World) -> None:
    """One slow group does not count for all."""
    rows = [
        _row(world, {"a": 1.0}),
        _row(world, {"a": 9.0}, "g1"),
        _row(world, {"a": 1.5, "b": 2.0}, "g2"),
        _row(world, {"a": 100.0}, "g3", models=("other",)),
    ]
    assert 1.5 == measure_step(rows, "tiny-wan", "a")
    assert 2.0 == measure_step(rows, "tiny-wan", "b")
    assert measure_step(rows, "tiny-wan", "c") is None


async def test_the_queue_shows_its_pools(world: World, app: FastAPI) -> None:
    """What waits and runs in each, the work ahead, and when a job of now would start."""
    async with open_door(app) as client:
        job = (await submit(client))["id"]
        await world.start(job)
        await submit(client)
        get_door(app).groups.apply(_row(world, {}, size=2))
        for _ in range(50):
            view = (await client.get("/v1/queue")).json()
            if view["pools"][0]["running"]:
                break
        (pool,) = view["pools"]
        price = (await client.get(f"{JOBS}/{job}")).json()["estimated_gpu_seconds"]
    assert ("default", ["tiny-wan"], 1, 1, 2) == tuple(pool[n] for n in ("pool", "models", "queued", "running", "gpus"))
    assert 2 * price == pytest.approx(pool["gpu_seconds_ahead"])
    assert pool["estimated_start"] is not None
