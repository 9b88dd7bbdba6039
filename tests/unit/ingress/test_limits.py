"""Limits: requests by key, jobs and GPU-seconds by tenant; each refusal says why, and when to come again."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from doors import JOBS, PROMPT, World, open_door, read_error
from tenancy import ADMIN, ADMIN_KEY, bearer, make_key, make_tenant
from vitascope.contracts import transitions
from vitascope.ingress import limits
from vitascope.ingress.limits import Limits


@pytest_asyncio.fixture
async def client(world: World) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a door with a key in its settings."""
    async with open_door(world.make_app(api_key=ADMIN_KEY)) as opened:
        yield opened


async def submit(client: httpx.AsyncClient, key: str, **options: Any) -> httpx.Response:
    headers = bearer(key) | options.pop("headers", {})
    return await client.post(JOBS, json=PROMPT | options, headers=headers)


async def test_a_key_may_ask_so_often(client: httpx.AsyncClient, world: World) -> None:
    """A burst after a rest, then so many a second; `Retry-After` is when the next one passes."""
    key = await make_tenant(client, "acme", rate={"per_second": 0.5, "burst": 3})
    assert [200, 200, 200, 429] == [(await client.get(JOBS, headers=bearer(key))).status_code for _ in range(4)]
    refused = await client.get(JOBS, headers=bearer(key))
    assert "0.5 a second, and 3 at once" in read_error(refused, 429, "rate_limited")["message"]
    assert "rate_limit_error" == refused.json()["error"]["type"]
    world.time.advance(float(refused.headers["retry-after"]))
    assert [200, 429] == [(await client.get(JOBS, headers=bearer(key))).status_code for _ in range(2)]


async def test_each_key_has_its_own_rate(client: httpx.AsyncClient) -> None:
    """One that asks too often stops no other, not even of its own tenant."""
    key = await make_tenant(client, "acme", rate={"per_second": 1, "burst": 1})
    other = await make_key(client, "acme", "jobs:read")
    answers = [(await client.get(JOBS, headers=bearer(one))).status_code for one in (key, key, other, ADMIN_KEY)]
    assert [200, 429, 200, 200] == answers


async def test_a_clock_set_back_gives_no_tokens(world: World) -> None:
    """And takes none away."""
    async with open_door(world.make_app(api_key=ADMIN_KEY)) as client:
        key = await make_tenant(client, "acme", rate={"per_second": 1, "burst": 2})
        assert 200 == (await client.get(JOBS, headers=bearer(key))).status_code
        world.time._elapsed_s -= 3600
        assert [200, 429] == [(await client.get(JOBS, headers=bearer(key))).status_code for _ in range(2)]


async def test_rates_are_remembered_for_so_many_keys(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory does not grow with the keys that ask."""
    monkeypatch.setattr(limits, "MAX_BUCKETS", 2)
    app = world.make_app(api_key=ADMIN_KEY)
    async with open_door(app) as client:
        await make_tenant(client, "acme", rate={"per_second": 1, "burst": 1})
        for _ in range(4):
            key = await make_key(client, "acme", "jobs:read")
            assert 200 == (await client.get(JOBS, headers=bearer(key))).status_code
        assert isinstance(app.state.door.limits, Limits)
        assert 2 == len(app.state.door.limits._buckets)


@pytest.mark.parametrize("quota", ["live_jobs", "queued_jobs"])
async def test_so_many_jobs_at_once(client: httpx.AsyncClient, world: World, quota: str) -> None:
    """The one too many is refused with the reason, and leaves nothing behind; the end of one makes room."""
    key = await make_tenant(client, "acme", quotas={quota: 2})
    jobs = [(await submit(client, key)).json()["id"] for _ in range(2)]
    refused = await submit(client, key)
    assert "2 of 2 jobs" in read_error(refused, 429, "quota_exceeded")["message"]
    assert "30" == refused.headers["retry-after"]
    assert 2 == await world.count_jobs()
    assert 202 == (await submit(client, ADMIN_KEY)).status_code
    await client.post(f"{JOBS}/{jobs[0]}/cancel", headers=bearer(key))
    assert 202 == (await submit(client, key)).status_code


async def test_twins_do_not_get_past_a_quota(client: httpx.AsyncClient, world: World) -> None:
    """What is being accepted counts already."""
    key = await make_tenant(client, "acme", quotas={"live_jobs": 3})
    answers = await asyncio.gather(*(submit(client, key) for _ in range(20)))
    assert 3 == [answer.status_code for answer in answers].count(202)
    assert {202, 429} == {answer.status_code for answer in answers}
    assert 3 == await world.count_jobs()


async def test_gpu_seconds_of_a_day(client: httpx.AsyncClient, world: World) -> None:
    """Used ones count until they are a day ago; `Retry-After` is when the first of them is."""
    estimate = (await submit(client, ADMIN_KEY)).json()["estimated_gpu_seconds"]
    key = await make_tenant(client, "acme", quotas={"gpu_seconds_per_day": estimate + 0.5})
    job = (await submit(client, key)).json()["id"]
    refused = await submit(client, key)
    assert "promised to jobs under way" in read_error(refused, 429, "quota_exceeded")["message"]
    await world.finish(job)  # it used one GPU-second
    world.time.advance(3600)
    refused = await submit(client, key)
    read_error(refused, 429, "quota_exceeded")
    assert str(23 * 3600) == refused.headers["retry-after"]
    world.time.advance(23 * 3600 + 1)
    assert 202 == (await submit(client, key)).status_code


async def test_a_repeated_request_takes_no_more_room(client: httpx.AsyncClient, world: World) -> None:
    """A storm of retries with one Idempotency-Key is one job, and none of them is refused for it."""
    key = await make_tenant(client, "acme", quotas={"live_jobs": 1, "queued_jobs": 1})
    answers = [await submit(client, key, headers={"Idempotency-Key": "k"}) for _ in range(5)]
    assert {202} == {answer.status_code for answer in answers}
    assert 1 == len({answer.json()["id"] for answer in answers})
    assert 1 == await world.count_jobs()


async def test_a_tier_that_is_not_the_tenants(client: httpx.AsyncClient) -> None:
    """Refused, naming those that are."""
    key = await make_tenant(client, "acme", tiers=["batch"])
    error = read_error(await submit(client, key), 403, "forbidden")
    assert ("tier", True) == (error["param"], "batch" in error["message"])
    assert 202 == (await submit(client, key, tier="batch")).status_code


async def test_a_retry_is_a_job_like_others(client: httpx.AsyncClient, world: World) -> None:
    """A quota holds for it, too."""
    key = await make_tenant(client, "acme", quotas={"live_jobs": 1})
    job = (await submit(client, key)).json()["id"]
    started = await world.start(job)
    failure = transitions.Failure.of(transitions.FailureCode.DENOISE_FAILED)
    await world.change(job, transitions.fail(started.record, 1, failure, world.time.now()))
    assert 202 == (await submit(client, key)).status_code
    read_error(await client.post(f"{JOBS}/{job}/retry", headers=bearer(key)), 429, "quota_exceeded")
    assert 2 == await world.count_jobs()


async def test_a_changed_limit_holds_at_once(client: httpx.AsyncClient) -> None:
    """At the replica where it was changed."""
    key = await make_tenant(client, "acme")
    assert 202 == (await submit(client, key)).status_code
    await client.patch("/v1/tenants/acme", json={"quotas": {"live_jobs": 1}}, headers=ADMIN)
    read_error(await submit(client, key), 429, "quota_exceeded")
