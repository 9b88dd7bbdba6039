"""Probes, metrics, models, queue and the OpenAPI document."""

import asyncio
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from doors import JOBS, ONE_REPLICA, World, get_door, open_door, read_error, submit
from vitascope.admission import FIELDS
from vitascope.contracts.pools import LEASE_S, GroupState
from vitascope.ingress.views import EXAMPLE_JOB, JobView

PARTS = ("default", "decode-default", "encode-default")


async def _ready(client: httpx.AsyncClient) -> tuple[int, dict[str, bool]]:
    await asyncio.sleep(0.001)  # the followers take in what was put just now
    response = await client.get("/readyz")
    checks: dict[str, bool] = response.json()["checks"]
    return response.status_code, checks


async def test_ready_once_a_job_would_run(world: World, client: httpx.AsyncClient) -> None:
    """Every stage of one pool, the servers and the read model."""
    await world.keep_rows(*PARTS)
    status, checks = await _ready(client)
    assert (200, {True}) == (status, set(checks.values()))


@pytest.mark.parametrize("missing", PARTS)
async def test_not_ready_without_a_stage(world: World, client: httpx.AsyncClient, missing: str) -> None:
    """503 in the one error shape, and the missing part is named."""
    await world.keep_rows(*(part for part in PARTS if part != missing))
    name = missing.partition("-")[0].replace("default", "denoise")
    status, checks = await _ready(client)
    assert (503, [name]) == (status, [part for part, is_there in checks.items() if not is_there])
    response = await client.get("/readyz")
    assert f"Missing: {name}." in response.json()["error"]["message"]
    assert ("service_unavailable", "5") == (response.json()["error"]["code"], response.headers["retry-after"])


@pytest.mark.parametrize("state", [GroupState.STARTING, GroupState.DRAINING])
async def test_a_group_that_takes_no_work_does_not_count(
    world: World, client: httpx.AsyncClient, state: GroupState
) -> None:
    """It is there, but a job would wait."""
    await world.keep_rows(*PARTS[1:])
    await world.keep_rows("default", state=state)
    assert (503, False) == ((await _ready(client))[0], (await _ready(client))[1]["denoise"])


async def test_rows_that_are_no_longer_renewed_do_not_count(world: World, client: httpx.AsyncClient) -> None:
    """A dead process leaves a row behind for a while; a removed one is gone at once."""
    await world.keep_rows(*PARTS)
    assert 200 == (await _ready(client))[0]
    world.time.advance(LEASE_S + 1)
    assert 503 == (await _ready(client))[0]
    assert [] == (await client.get("/v1/queue")).json()["groups"]


async def test_not_ready_without_servers(world: World, client: httpx.AsyncClient) -> None:
    """Each is named; both come back by themselves."""
    await world.keep_rows(*PARTS)
    world.store.is_away = True
    world.broker.set_connected(connected=False)
    status, checks = await _ready(client)
    assert (503, False, False) == (status, checks["bus"], checks["store"])
    world.store.is_away = False
    world.broker.set_connected(connected=True)
    assert 200 == (await _ready(client))[0]


async def test_alive_while_the_followers_are(
    world: World, app: FastAPI, monkeypatch: pytest.MonkeyPatch, logs: list[Any]
) -> None:
    """An outage of a server does not end them; a bug does, and then a restart is asked for."""
    async with open_door(app) as client:
        world.broker.set_connected(connected=False)
        assert {"status": "ok"} == (await client.get("/healthz")).json()
        world.broker.set_connected(connected=True)
        monkeypatch.setattr(get_door(app).jobs, "apply", None)  # the follower's next change meets a bug
        await submit_raw(world)
        await asyncio.sleep(0.001)
        read_error(await client.get("/healthz"), 503, "internal_error")
    assert ["follower stopped"] == [line["event"] for line in logs if line["log_level"] == "error"]


@ONE_REPLICA
async def test_metrics_count_requests_by_route_and_jobs_by_state(world: World, client: httpx.AsyncClient) -> None:
    """Ids make no series of their own; gauges are what the read models see."""
    await world.keep_rows("default")
    job = (await submit(client))["id"]
    await client.get(f"{JOBS}/{job}")
    await client.request("BREW", f"{JOBS}/{job}")
    text = (await client.get("/metrics")).text
    assert 'vitascope_http_requests_total{method="GET",route="/v1/video-jobs/{job}",status="200"} 1.0' in text
    assert 'method="other"' in text
    assert 'vitascope_jobs{state="queued"} 1.0' in text
    assert 'vitascope_groups{pool="default",state="idle"} 1.0' in text
    assert job not in text


async def test_models_show_shapes_limits_and_prices(client: httpx.AsyncClient) -> None:
    """What a client needs to make a request that is taken."""
    (model,) = (await client.get("/v1/models")).json()["data"]
    assert ("tiny-wan", True, 30) == (model["id"], model["is_default"], len(model["buckets"]))
    bucket = next(bucket for bucket in model["buckets"] if bucket["name"] == "64x64_17")
    made = await submit(client, size=bucket["size"], frames=bucket["num_frames"])
    assert (320, made["estimated_gpu_seconds"], made["price_units"]) == (
        bucket["tokens"],
        bucket["estimated_gpu_seconds"],
        bucket["price_units"],
    )
    assert {"width": 64, "height": 64, "num_frames": 17, "fps": 8} == {
        name: model["defaults"][name] for name in ("width", "height", "num_frames", "fps")
    }


async def test_the_queue_counts_by_state(world: World, client: httpx.AsyncClient) -> None:
    """Every state has its number."""
    first, _ = [(await submit(client))["id"] for _ in range(2)]
    await world.start(first)
    await asyncio.sleep(0.001)
    jobs = (await client.get("/v1/queue")).json()["jobs"]
    assert (1, 1, 0, 10) == (jobs["queued"], jobs["running"], jobs["failed"], len(jobs))


async def test_openapi_is_3_1_and_knows_every_field(client: httpx.AsyncClient) -> None:
    """The document and the door read the same fields; examples are taken; every route has an id of its own."""
    document = (await client.get("/openapi.json")).json()
    assert document["openapi"].startswith("3.1")
    body = document["paths"][JOBS]["post"]["requestBody"]["content"]["application/json"]
    assert FIELDS == set(body["schema"]["properties"])
    for example in body["examples"].values():
        await submit(client, **example["value"])
    operations = [operation for path in document["paths"].values() for operation in path.values()]
    assert len(operations) == len({operation["operationId"] for operation in operations})
    schemas = document["components"]["schemas"]
    assert "HTTPValidationError" not in schemas
    assert EXAMPLE_JOB == JobView.model_validate(EXAMPLE_JOB).model_dump(mode="json")
    assert set(schemas["JobView"]["properties"]) == set(schemas["JobView"]["examples"][0])
    assert {"apiKey"} == set(document["components"]["securitySchemes"])


async def submit_raw(world: World) -> None:
    """A job that another replica accepts."""
    async with open_door(world.make_app()) as other:
        await submit(other)
