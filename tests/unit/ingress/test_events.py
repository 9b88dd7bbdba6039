"""Server-sent events: states with durable ids, progress, keep-alive, and an end."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from doors import JOBS, Faulty, World, get_door, open_door, read_error, submit
from vitascope.contracts import transitions
from vitascope.contracts.events import Progress
from vitascope.contracts.failures import FailureCode, VitascopeError
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
        stream = stream_events(door, CALLER, job, None)
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
        stream = stream_events(get_door(app), CALLER, job, None)
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
        stream = stream_events(get_door(app), CALLER, job, None)
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


async def test_coming_back_later_shows_every_state_that_was_missed(world: World, client: httpx.AsyncClient) -> None:
    """From the ledger's own history, oldest first, each once; what is no news is not among them."""
    job = (await submit(client))["id"]
    record = (await world.start(job)).record
    noted = record.model_copy(update={"run": record.run.model_copy(update={"failures": 1})})
    await world.change(job, noted, transitions.cancel(noted, world.time.now()))
    response = await client.get(f"{JOBS}/{job}/events", headers={"last-event-id": "1"})
    assert [("status", "2", "running"), ("status", "4", "cancelled")] == _read_all(response.text)


@pytest.mark.parametrize(
    ("last", "names"),
    [
        pytest.param(None, ["status"], id="none"),
        pytest.param("", ["status"], id="empty"),
        pytest.param("1", ["status"] * 4, id="older"),
        pytest.param("4", ["status"], id="the one before"),
        pytest.param("99", ["resync", "status"], id="of no revision that there is"),
        pytest.param("9" * 30, ["resync", "status"], id="nonsense"),
        pytest.param("five", ["resync", "status"], id="word"),
    ],
)
async def test_an_ended_job_ends_the_stream(
    world: World, client: httpx.AsyncClient, last: str | None, names: list[str]
) -> None:
    """What followed the last id, or that nobody knows what did, and then the present state."""
    job = (await submit(client))["id"]
    await world.finish(job)
    response = await client.get(f"{JOBS}/{job}/events", headers={"last-event-id": last} if last is not None else {})
    assert 200 == response.status_code
    assert "text/event-stream" in response.headers["content-type"]
    assert "no-store" == response.headers["cache-control"]
    shown = _read_all(response.text)
    assert names == [name for name, _, _ in shown]
    assert ("status", "5", "succeeded") == shown[-1]


async def test_history_that_is_gone_is_said(world: World, client: httpx.AsyncClient) -> None:
    """`resync`, without an id of its own, and the present state: nothing is skipped without a word."""
    job = (await submit(client))["id"]
    await world.finish(job)
    world.broker.ledger._history[job].popleft()
    response = await client.get(f"{JOBS}/{job}/events", headers={"last-event-id": "1"})
    assert [("resync", "", None), ("status", "5", "succeeded")] == _read_all(response.text)


async def test_a_ledger_that_cannot_say_what_was_missed(world: World) -> None:
    """The present state is known, and that is said."""
    away = Faulty(world.broker.ledger, "read_history", VitascopeError(FailureCode.BUS_UNAVAILABLE))
    async with open_door(world.make_app(ledger=away)) as client:  # type: ignore[arg-type]  # it is one but for a method
        job = (await submit(client))["id"]
        await world.finish(job)
        response = await client.get(f"{JOBS}/{job}/events", headers={"last-event-id": "1"})
    assert ["resync", "status"] == [name for name, _, _ in _read_all(response.text)]


async def test_who_has_seen_the_end_is_not_to_come_back(world: World, client: httpx.AsyncClient) -> None:
    """204 tells a browser so."""
    job = (await submit(client))["id"]
    await world.finish(job)
    response = await client.get(f"{JOBS}/{job}/events", headers={"last-event-id": "5"})
    assert (204, b"") == (response.status_code, response.content)


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


def _read_all(text: str) -> list[tuple[str, str, str | None]]:
    """The events of a whole stream: name, id, status."""
    blocks = [dict(line.split(": ", 1) for line in block.splitlines()) for block in text.split("\n\n") if block]
    return [
        (block["event"], block.get("id", ""), json.loads(block["data"]).get("status"))
        for block in blocks
        if "event" in block
    ]
