"""Idempotency and durability of acceptance: every crash between two of its steps, twins, and lost servers."""

import asyncio
import contextlib
import json
from typing import Any

import httpx
import pytest

from doors import JOBS, KEY, PROMPT, Crash, Faulty, World, get_door, open_door, read_error, submit
from vitascope.contracts import transitions
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.jobs import JobRecord
from vitascope.contracts.objects import record_key
from vitascope.runtime.ports import Ledger, ObjectStore, Stamped
from vitascope.runtime.rebuild import Rebuilder

HEADERS = {"Idempotency-Key": KEY}


def _faulty_app(world: World, port: str, method: str, error: Exception, **options: Any) -> Any:
    real: Ledger | ObjectStore = world.broker.ledger if port == "ledger" else world.store
    return world.make_app(**{port: Faulty(real, method, error, **options)})


STEPS = [
    pytest.param("ledger", "remember", False, id="before-the-key"),
    pytest.param("ledger", "remember", True, id="after-the-key"),
    pytest.param("store", "put", False, id="before-the-copy"),
    pytest.param("store", "put", True, id="after-the-copy"),
    pytest.param("ledger", "create", False, id="before-the-record"),
    pytest.param("ledger", "create", True, id="after-the-record"),
]


@pytest.mark.parametrize(("port", "method", "is_after"), STEPS)
@pytest.mark.parametrize("body", [pytest.param({}, id="seed-drawn"), pytest.param({"seed": 3}, id="seed-given")])
async def test_a_retry_finishes_what_a_crash_left(
    world: World,
    port: str,
    method: str,
    body: dict[str, Any],
    *,
    is_after: bool,
) -> None:
    """The replica dies between two steps; another one takes the same request: one job, one copy, equal to it."""
    async with open_door(_faulty_app(world, port, method, Crash(), is_after=is_after)) as client:
        with pytest.raises(Crash):
            await client.post(JOBS, json=PROMPT | body, headers=HEADERS)
    world.time.advance(60)
    async with open_door(world.make_app()) as client:
        first = await submit(client, key=KEY, **body)
        second = await submit(client, key=KEY, **body)
    assert first == second
    assert 1 == await world.count_jobs()
    record = (await world.load(first["id"])).record
    assert {record_key(record): record.to_bytes()} == world.store.objects


@pytest.mark.parametrize(("port", "method", "is_after"), STEPS)
async def test_an_outage_is_503_and_the_retry_is_one_job(
    world: World,
    port: str,
    method: str,
    *,
    is_after: bool,
) -> None:
    """NATS or S3 does not answer at some step: 503 with Retry-After, or the job if it turns out to be there."""
    lost = FailureCode.BUS_UNAVAILABLE if port == "ledger" else FailureCode.STORE_UNAVAILABLE
    app = _faulty_app(world, port, method, VitascopeError(lost, "at 10.0.0.7:4222"), is_after=is_after)
    async with open_door(app) as client:
        response = await client.post(JOBS, json=PROMPT, headers=HEADERS)
        if (method, is_after) == ("create", True):
            assert 202 == response.status_code
        else:
            error = read_error(response, 503, "service_unavailable")
            assert int(response.headers["retry-after"]) > 0
            assert "10.0.0.7" not in error["message"]
            assert 0 == await world.count_jobs()
        view = await submit(client, key=KEY)
    assert 1 == await world.count_jobs()
    record = (await world.load(view["id"])).record
    assert record.to_bytes() == world.store.objects[record_key(record)]


@pytest.mark.parametrize(("port", "method", "is_after"), [step for step in STEPS if "key" not in str(step.id)])
async def test_an_outage_without_a_key_leaves_nothing(
    world: World,
    port: str,
    method: str,
    *,
    is_after: bool,
) -> None:
    """Nobody else can be making that job, so its copy goes at once."""
    lost = FailureCode.BUS_UNAVAILABLE if port == "ledger" else FailureCode.STORE_UNAVAILABLE
    app = _faulty_app(world, port, method, VitascopeError(lost), is_after=is_after)
    async with open_door(app) as client:
        response = await client.post(JOBS, json=PROMPT)
    is_there = (method, is_after) == ("create", True)
    assert (202 if is_there else 503) == response.status_code
    assert int(is_there) == await world.count_jobs() == len(world.store.objects)


async def test_a_key_waits_until_a_lost_ledger_is_rebuilt(world: World) -> None:
    """Until then nobody knows what it stands for: 503, and then the same job; without a key jobs are taken."""
    async with open_door(world.make_app()) as client:
        first = await submit(client, key=KEY)
    world.broker.lose()
    async with open_door(world.make_app()) as client:
        read_error(await client.post(JOBS, json=PROMPT, headers=HEADERS), 503, "service_unavailable")
        read_error(await client.get(f"{JOBS}/{first['id']}"), 503, "service_unavailable")
        await submit(client)
        await Rebuilder(world.broker.ledger, world.store, world.time).run(with_younger=True)
        world.mark_complete()
        assert (
            first["id"]
            == (await submit(client, key=KEY))["id"]
            == (await client.get(f"{JOBS}/{first['id']}")).json()["id"]
        )
    assert 2 == await world.count_jobs()


async def test_a_full_store_is_503_and_nothing_is_made(world: World, client: httpx.AsyncClient) -> None:
    """The disk of the store is full: the client may come back later."""
    world.store.is_full = True
    read_error(await client.post(JOBS, json=PROMPT), 503, "service_unavailable")
    assert 0 == await world.count_jobs()
    world.store.is_full = False
    await submit(client)


async def test_without_a_ledger_to_ask_the_copy_waits_for_the_retry(world: World) -> None:
    """The create fails and the ledger cannot be asked: 503; the retry with the key makes the one job."""
    gone = VitascopeError(FailureCode.BUS_UNAVAILABLE)
    ledger = Faulty(Faulty(world.broker.ledger, "create", gone), "get", gone)
    async with open_door(world.make_app(ledger=ledger)) as client:
        read_error(await client.post(JOBS, json=PROMPT, headers=HEADERS), 503, "service_unavailable")
        view = await submit(client, key=KEY)
    assert 1 == await world.count_jobs() == len(world.store.objects)
    assert view["id"] in next(iter(world.store.objects))


async def test_same_key_and_body_is_the_same_job(world: World, client: httpx.AsyncClient) -> None:
    """However the body is written; the answer says that it is a repetition."""
    first = await client.post(JOBS, json=PROMPT | {"seed": 1, "steps": 5}, headers=HEADERS)
    content = json.dumps({"steps": 5, "seed": 1} | PROMPT, indent=3)
    second = await client.post(JOBS, content=content, headers=HEADERS | {"content-type": "application/json"})
    assert "idempotency-replayed" not in first.headers
    assert "true" == second.headers["idempotency-replayed"]
    assert (202, first.json()) == (second.status_code, second.json())
    assert 1 == await world.count_jobs()


async def test_same_key_and_other_body_is_a_conflict(world: World, client: httpx.AsyncClient) -> None:
    """409; the first job is untouched. Another key is another job."""
    first = await submit(client, key=KEY)
    error = read_error(
        await client.post(JOBS, json=PROMPT | {"seed": 2}, headers=HEADERS),
        409,
        "idempotency_conflict",
    )
    assert "Idempotency-Key" == error["param"]
    assert 1 == await world.count_jobs()
    assert first["id"] != (await submit(client, key="other", seed=2))["id"]


async def test_a_retry_long_after_shows_the_job_as_it_is(world: World, client: httpx.AsyncClient) -> None:
    """The key stands for the job whatever became of it; nothing is generated twice."""
    first = await submit(client, key=KEY)
    await world.finish(first["id"])
    again = await submit(client, key=KEY)
    assert (first["id"], "succeeded") == (again["id"], again["status"])


async def test_a_replay_is_answered_though_the_queue_is_full(world: World) -> None:
    """A full queue turns new jobs away, not those that were taken."""
    async with open_door(world.make_app(max_queued=1)) as client:
        first = await submit(client, key=KEY)
        assert first["id"] == (await submit(client, key=KEY))["id"]


async def test_a_key_refused_by_a_full_queue_works_later(world: World) -> None:
    """The very request that met a full queue is taken once there is room."""
    async with open_door(world.make_app(max_queued=1)) as client:
        other = await submit(client)
        read_error(await client.post(JOBS, json=PROMPT, headers=HEADERS), 429, "queue_full")
        await client.post(f"{JOBS}/{other['id']}/cancel")
        await submit(client, key=KEY)


async def test_a_key_refused_by_a_full_queue_is_tied_to_no_body(world: World) -> None:
    """429 made nothing, so the key is free: also for another body."""
    async with open_door(world.make_app(max_queued=1)) as client:
        other = await submit(client)
        read_error(await client.post(JOBS, json=PROMPT, headers=HEADERS), 429, "queue_full")
        await client.post(f"{JOBS}/{other['id']}/cancel")
        assert 5 == (await submit(client, key=KEY, seed=5))["seed"]
        read_error(await client.post(JOBS, json=PROMPT, headers=HEADERS), 409, "idempotency_conflict")


@pytest.mark.parametrize(
    "key",
    [
        pytest.param("", id="empty"),
        pytest.param("k" * 256, id="long"),
        pytest.param("k\tk", id="control"),
        pytest.param("ké".encode("latin-1"), id="latin"),
    ],
)
async def test_a_key_that_is_no_key_is_refused(world: World, client: httpx.AsyncClient, key: str | bytes) -> None:
    """1 to 255 printable ASCII characters; the header is named."""
    raw = key if isinstance(key, bytes) else key.encode()
    response = await client.post(JOBS, json=PROMPT, headers=[(b"Idempotency-Key", raw)])
    assert "Idempotency-Key" == read_error(response, 400, "invalid_request")["param"]
    assert 0 == await world.count_jobs()


async def test_the_longest_key_is_taken(client: httpx.AsyncClient) -> None:
    """Any printable characters, blanks and dots included."""
    key = ("a .*>/" * 50)[:255]
    assert (await submit(client, key=key))["id"] == (await submit(client, key=key))["id"]


@pytest.mark.parametrize("replicas", [pytest.param(1, id="one-replica"), pytest.param(2, id="two-replicas")])
async def test_concurrent_twins_are_one_job(world: World, replicas: int) -> None:
    """Twenty equal requests at once, each yielding at every step: one id, one record, equal answers."""
    ledger, store = Slow(world.broker.ledger), Slow(world.store)
    async with contextlib.AsyncExitStack() as stack:
        doors = [
            await stack.enter_async_context(open_door(world.make_app(ledger=ledger, store=store)))
            for _ in range(replicas)
        ]
        sends = (doors[i % replicas].post(JOBS, json=PROMPT, headers=HEADERS) for i in range(20))
        answers = await asyncio.gather(*sends)
        assert {202} == {answer.status_code for answer in answers}
        unchanging = [{**answer.json(), "queue_position": 0, "estimated_start": 0, "reason": ""} for answer in answers]
        assert all(unchanging[0] == view for view in unchanging)
    assert 1 == await world.count_jobs()
    record = (await world.load(answers[0].json()["id"])).record
    assert {record_key(record): record.to_bytes()} == world.store.objects


async def test_a_late_twin_does_not_hide_that_the_job_has_ended(world: World) -> None:
    """A twin stores its copy after the job has ended: the copy says that it has, or a rebuild would run it again."""
    ended: list[Stamped] = []

    class EndsFirst(Slow):
        async def create(self, record: JobRecord) -> Stamped:
            ledger: Ledger = self._port
            stamped = await ledger.create(record)
            ended.append(await ledger.replace(stamped, transitions.cancel(record, world.time.now())))
            return await ledger.create(record)

    app = world.make_app(ledger=EndsFirst(world.broker.ledger))
    async with open_door(app) as client:
        view = await submit(client, key=KEY)
    assert "cancelled" == view["status"]
    assert ended[0].record.to_bytes() == world.store.objects[record_key(ended[0].record)]
    assert 0 == get_door(app).streams.count


class Slow:
    """A port whose every call lets others go first."""

    def __init__(self, port: Any) -> None:
        self._port = port

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._port, name)
        if not asyncio.iscoroutinefunction(real):
            return real

        async def call(*args: Any, **options: Any) -> Any:
            await asyncio.sleep(0)
            answer = await real(*args, **options)
            await asyncio.sleep(0)
            return answer

        return call
