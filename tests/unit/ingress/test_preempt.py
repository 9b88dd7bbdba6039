"""Preemption at the door: which jobs it takes, and what becomes of the record."""

import asyncio

import httpx
import pytest

from doors import JOBS, World, open_door, read_error, submit
from records import ENGINE, object_ref
from vitascope.contracts import transitions
from vitascope.contracts.events import Control
from vitascope.contracts.flow import State
from vitascope.runtime.ports import Stamped


async def test_a_running_job_is_asked_once(world: World, client: httpx.AsyncClient) -> None:
    """It goes on running with the request in its record; asking again is the same, and changes nothing."""
    job = (await submit(client))["id"]
    await world.start(job)
    first = await client.post(f"{JOBS}/{job}/preempt")
    revision = (await world.load(job)).revision
    second = await client.post(f"{JOBS}/{job}/preempt", content=b"whatever")
    assert (202, 202) == (first.status_code, second.status_code), first.text
    assert first.json() == second.json()
    assert ("running", True, 0) == tuple(first.json()[name] for name in ("status", "preempt_requested", "preemptions"))
    after = await world.load(job)
    assert (revision, True, 1) == (after.revision, after.record.run.preempt_requested, after.record.run.attempt)


async def test_twins_at_two_replicas_are_one_change(world: World) -> None:
    """Each answers alike, and the record changes once."""
    async with open_door(world.make_app()) as one, open_door(world.make_app()) as other:
        job = (await submit(one))["id"]
        before = await world.start(job)
        answers = await asyncio.gather(*(door.post(f"{JOBS}/{job}/preempt") for door in (one, other) * 4))
    assert {202} == {answer.status_code for answer in answers}
    assert before.revision + 1 == (await world.load(job)).revision


async def test_the_group_is_told(world: World, client: httpx.AsyncClient) -> None:
    """The shortcut, each time: the first message may have been lost."""
    job = (await submit(client))["id"]
    await world.start(job, "g7")
    async with world.broker.bus.watch_control("g7") as news:
        for _ in range(2):
            await client.post(f"{JOBS}/{job}/preempt")
            assert Control(job=job, attempt=1) == await anext(news)


async def test_a_preempted_job_shows_how_often_it_was(world: World, client: httpx.AsyncClient) -> None:
    """Back in the queue nothing is requested any more, and there is nothing to preempt."""
    job = (await submit(client))["id"]
    await world.start(job)
    await client.post(f"{JOBS}/{job}/preempt")
    running = await world.load(job)
    await world.change(job, transitions.requeue(running.record, 1, "It was preempted.", preempted=True))
    view = (await client.get(f"{JOBS}/{job}")).json()
    assert ("queued", False, 1) == (view["status"], view["preempt_requested"], view["preemptions"])
    read_error(await client.post(f"{JOBS}/{job}/preempt"), 409, "not_preemptable")


@pytest.mark.parametrize("state", [State.QUEUED, State.DECODING, State.SUCCEEDED, State.CANCELLED])
async def test_a_job_that_holds_no_group_is_not_preempted(
    world: World, client: httpx.AsyncClient, state: State
) -> None:
    """409 with the state, and it stays as it is."""
    job = (await submit(client))["id"]
    before = await _bring_to(world, job, state)
    error = read_error(await client.post(f"{JOBS}/{job}/preempt"), 409, "not_preemptable")
    assert f"It is {state}." in error["message"]
    assert before == await world.load(job)


async def test_without_a_ledger_it_is_503(world: World, client: httpx.AsyncClient) -> None:
    """The client knows that it has to ask again."""
    job = (await submit(client))["id"]
    await world.start(job)
    world.broker.set_connected(connected=False)
    read_error(await client.post(f"{JOBS}/{job}/preempt"), 503, "service_unavailable")
    world.broker.set_connected(connected=True)
    assert not (await world.load(job)).record.run.preempt_requested


async def _bring_to(world: World, job: str, state: State) -> Stamped:
    now = world.time.now()
    if state is State.SUCCEEDED:
        return await world.finish(job)
    if state is State.CANCELLED:
        return await world.change(job, transitions.cancel((await world.load(job)).record, now))
    if state is State.DECODING:
        record = (await world.start(job)).record
        latents = object_ref()
        done = transitions.finish_denoise(record, 1, latents=latents, engine=ENGINE, gpu_s=1.0, stage_s=1.0, now=now)
        return await world.change(job, done)
    return await world.load(job)
