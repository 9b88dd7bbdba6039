"""Server-sent events: states with durable ids, progress, keep-alive, and an end."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from doors import JOBS, World, get_door, open_door, read_error, submit
from vitascope.contracts import transitions
from vitascope.contracts.events import Progress
from vitascope.ingress.caller import Caller
from vitascope.ingress.events import stream_events

WAIT_S = 10.0
CALLER = Caller("default")


async def _next(stream: AsyncIterator[bytes]) -> tuple[str, dict[str, Any], str]:
    """The next event: name, data, id."""
    async with asyncio.timeout(WAIT_S):
        lines = (await anext(stream)).decode().splitlines()
    fields = dict(line.split(": ", 1) for line in lines if ": " in line)
    return fields.get("event", ""), json.loads(fields.get("data", "null")), fields.get("id", "")


def _progress(world: World, job: str, step: int) -> Progress:
    return Progress(job=job, attempt=1, stage="denoise", step=step, steps=24, time=world.time.now())


async def test_states_and_progress_until_the_end(world: World, app: FastAPI) -> None:
    """The present state first, then what happens; ids are the ledger's revisions; progress has none."""
    async with open_door(app) as client:
        job = (await submit(client))["id"]
        door = get_door(app)
        stream = stream_events(door, CALLER, job, 0)
        assert b"retry: 2000\n\n" == await anext(stream)
        assert ("status", "queued", "1") == _brief(await _next(stream))
        await world.start(job)
        assert ("status", "running", "2") == _brief(await _next(stream))
        door.progress.apply(_progress(world, job, 3))
        name, view, event_id = await _next(stream)
        assert ("progress", 3, 24, "denoise", "") == (name, view["step"], view["steps"], view["stage"], event_id)
        assert 1 == door.streams.count
        await client.post(f"{JOBS}/{job}/cancel")
        assert ("status", "cancelled", "3") == _brief(await _next(stream))
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
        assert 0 == door.streams.count


async def test_a_change_that_is_no_news_is_not_sent(world: World, app: FastAPI) -> None:
    """A noted failed try or checkpoint moves the revision, not the state."""
    async with open_door(app) as client:
        job = (await submit(client))["id"]
        stream = stream_events(get_door(app), CALLER, job, 0)
        await anext(stream)
        await _next(stream)
        running = await world.start(job)
        assert "running" == (await _next(stream))[1]["status"]
        record = running.record
        noted = record.model_copy(update={"run": record.run.model_copy(update={"failures": 1})})
        await world.change(job, noted, transitions.cancel(noted, world.time.now()))
        assert ("status", "cancelled", "4") == _brief(await _next(stream))


async def test_a_change_older_than_what_was_shown_is_not_sent(world: World, app: FastAPI) -> None:
    """The feed may lag behind the ledger's own answer with which a stream begins."""
    async with open_door(app) as client:
        job = (await submit(client))["id"]
        queued = await world.load(job)
        await world.start(job)
        stream = stream_events(get_door(app), CALLER, job, 0)
        await anext(stream)
        assert ("status", "running", "2") == _brief(await _next(stream))
        for listener in get_door(app).jobs._listeners[job]:
            listener.offer(queued)
        await client.post(f"{JOBS}/{job}/cancel")
        assert ("status", "cancelled", "3") == _brief(await _next(stream))


async def test_coming_back_shows_only_what_is_new(world: World, app: FastAPI) -> None:
    """With the last id: nothing again; without a useful one: the present state."""
    async with open_door(app) as client:
        job = (await submit(client))["id"]
        await world.start(job)
        stream = stream_events(get_door(app), CALLER, job, 2, keep_alive_s=0.01)
        await anext(stream)
        async with asyncio.timeout(WAIT_S):
            assert b": keep-alive\n\n" == await anext(stream)
        await stream.aclose()
        assert 0 == get_door(app).streams.count


@pytest.mark.parametrize(
    ("last", "status"),
    [
        pytest.param(None, 200, id="none"),
        pytest.param("1", 200, id="older"),
        pytest.param("5", 204, id="the-last"),
        pytest.param("9" * 30, 200, id="nonsense"),
        pytest.param("five", 200, id="word"),
    ],
)
async def test_an_ended_job_is_one_event_or_none(
    world: World, client: httpx.AsyncClient, last: str | None, status: int
) -> None:
    """204 tells a browser that has seen the end not to come back."""
    job = (await submit(client))["id"]
    await world.finish(job)
    response = await client.get(f"{JOBS}/{job}/events", headers={"last-event-id": last} if last else {})
    assert status == response.status_code
    if status == 200:
        assert "text/event-stream" in response.headers["content-type"]
        assert "no-store" == response.headers["cache-control"]
        assert 1 == response.text.count("event: status")
        assert "id: 5\n" in response.text


async def test_too_many_streams_are_refused(client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """503 with Retry-After: another replica may have room."""
    monkeypatch.setattr("vitascope.ingress.events.MAX_STREAMS", 0)
    job = (await submit(client))["id"]
    response = await client.get(f"{JOBS}/{job}/events")
    read_error(response, 503, "service_unavailable")
    assert "retry-after" in response.headers


def _brief(event: tuple[str, dict[str, Any], str]) -> tuple[str, str, str]:
    name, view, event_id = event
    return name, view["status"], event_id
