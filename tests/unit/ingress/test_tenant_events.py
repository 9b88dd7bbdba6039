"""`GET /v1/events`: the states of all jobs of a tenant, from where the client left off."""

import asyncio
import json
from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import FastAPI

from doors import JOBS, World, get_door, open_door, read_error, submit, until
from records import queued_record
from vitascope.contracts import transitions
from vitascope.ingress.caller import Caller
from vitascope.ingress.sse import UNKNOWN
from vitascope.ingress.tenant_events import stream_all

CALLER = Caller("default")
WAIT_S = 10.0


async def _next(stream: AsyncIterator[bytes]) -> tuple[str, str, str | None, str | None]:
    """Name, id, job and status of the next event."""
    async with asyncio.timeout(WAIT_S):
        lines = (await anext(stream)).decode().splitlines()
    fields = dict(line.split(": ", 1) for line in lines if line)
    view = json.loads(fields["data"])
    return fields["event"], fields.get("id", ""), view["id"], view.get("status")


async def test_states_of_all_jobs_of_the_caller(world: World, app: FastAPI) -> None:
    """After `resync`, which has the id to come back with, each in the order of the ledger."""
    async with open_door(app) as client:
        stream = stream_all(get_door(app), CALLER, None)
        assert b"retry: 2000\n\n" == await anext(stream)
        assert ("resync", "0", None, None) == await _next(stream)
        first, second = [(await submit(client))["id"] for _ in range(2)]
        await world.broker.ledger.create(queued_record(tenant="other"))
        assert ("status", "1", first, "queued") == await _next(stream)
        assert ("status", "2", second, "queued") == await _next(stream)
        await world.start(second)
        assert ("status", "4", second, "running") == await _next(stream)
        assert 1 == get_door(app).streams.count
        await stream.aclose()
        assert 0 == get_door(app).streams.count


async def test_coming_back_misses_nothing_at_another_replica(world: World) -> None:
    """Ids are the ledger's, so any replica that was there goes on."""
    app, other = world.make_app(), world.make_app()
    async with open_door(app) as client, open_door(other):
        job = (await submit(client))["id"]
        record = (await world.start(job)).record
        await world.change(job, transitions.cancel(record, world.time.now()))
        await until(lambda: get_door(other).jobs.changes.newest == 3)
        stream = stream_all(get_door(other), CALLER, 1)
        await anext(stream)
        assert ("status", "3", job, "cancelled") == (await _read_until(stream, "cancelled"))
        await stream.aclose()


async def _read_until(stream: AsyncIterator[bytes], status: str) -> tuple[str, str, str | None, str | None]:
    while (event := await _next(stream))[3] != status:
        assert event[0] == "status"
    return event


@pytest.mark.parametrize("seen", [0, UNKNOWN, 10**18], ids=["of before the start", "nonsense", "never reached"])
async def test_a_gap_is_said(world: World, app: FastAPI, seen: int) -> None:
    """`resync`, with the id from which it goes on."""
    await world.broker.ledger.create(queued_record())
    async with open_door(app):
        stream = stream_all(get_door(app), CALLER, seen)
        await anext(stream)
        assert ("resync", "1", None, None) == await _next(stream)
        await stream.aclose()


async def test_a_silent_stream_is_kept_open(app: FastAPI) -> None:
    """By a comment, which no client takes for an event."""
    async with open_door(app):
        stream = stream_all(get_door(app), CALLER, None, keep_alive_s=0.01)
        await anext(stream)
        await anext(stream)
        async with asyncio.timeout(WAIT_S):
            assert b": keep-alive\n\n" == await anext(stream)
        await stream.aclose()


async def test_the_door_closes_its_streams(app: FastAPI) -> None:
    """Nobody waits for one when a replica ends."""
    async with open_door(app) as client:
        reading = asyncio.create_task(client.get("/v1/events"))
        await until(lambda: get_door(app).streams.count == 1)
        get_door(app).streams.close()
        response = await asyncio.wait_for(reading, WAIT_S)
    assert (200, True) == (response.status_code, "event: resync\nid: 0\n" in response.text)


async def test_too_many_streams_are_refused(client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """503 with Retry-After, as for a job's stream."""
    monkeypatch.setattr("vitascope.ingress.tenant_events.MAX_STREAMS", 0)
    read_error(await client.get("/v1/events"), 503, "service_unavailable")
    assert 404 == (await client.get(f"{JOBS}/x/events")).status_code
