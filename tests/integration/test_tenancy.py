"""Tenancy over real servers, two replicas of the door: every route with a stranger's key, lists, events, lost buckets.

The routes are those of the API's own description, so that a new one is asked without being listed here.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator, MutableMapping
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import httpx
import pytest
import pytest_asyncio
from fastapi import FastAPI
from pydantic import SecretStr
from structlog.testing import capture_logs

from contract.real import RETENTION, RealPorts, real_ports, s3_client
from contract.waiting import until
from doors import JOBS, PROMPT, World, make_reader, open_door, read_error
from servers import RunningNats, RunningS3
from tenancy import ADMIN, ADMIN_KEY, bearer, make_key, make_tenant
from vitascope.adapters.jetstream import Connection, JetStreamDeliveryBook, ensure
from vitascope.adapters.jetstream.api import call
from vitascope.adapters.s3 import S3ObjectStore, ensure_bucket
from vitascope.catalog import load_catalog
from vitascope.contracts import transitions
from vitascope.contracts.ids import make_job_id
from vitascope.ingress import IngressDeps, create_app
from vitascope.outbound import AddressRules, Outbound
from vitascope.publish import UrlSigner
from vitascope.runtime.completeness import Completeness
from vitascope.runtime.ports import SystemClock
from vitascope.runtime.rebuild import Rebuilder
from vitascope.runtime.settings import IngressSettings
from vitascope.runtime.tenants import KeptTenants

SECRET = "a prompt that nobody else may ever read"
LABEL = "label-of-the-owner"
METHODS = ("get", "head", "post", "put", "patch", "delete")
STREAM_S, ANSWER_S = 2.0, 30.0
"""How long an endless answer is waited for, and any other: a busy machine may be slow."""

Pair = tuple[httpx.AsyncClient, httpx.AsyncClient]


@pytest.fixture(autouse=True)
def logs() -> Iterator[list[Any]]:
    """What is logged, as dicts, instead of on the terminal."""
    with capture_logs() as lines:
        yield lines  # type: ignore[misc]  # structlog's own mutable mappings


@pytest_asyncio.fixture
async def ports(nats_server: RunningNats) -> AsyncIterator[tuple[RealPorts, RealPorts]]:
    """A connection for each replica."""
    async with Connection(nats_server.url) as one, Connection(nats_server.url) as two:
        await ensure(one)
        yield real_ports(one), real_ports(two)


@pytest_asyncio.fixture
async def store(s3_server: RunningS3) -> AsyncIterator[S3ObjectStore]:
    async with s3_client(s3_server) as client:
        await ensure_bucket(client, RETENTION)
        yield S3ObjectStore(client)


@pytest_asyncio.fixture
async def apps(ports: tuple[RealPorts, RealPorts], store: S3ObjectStore) -> list[FastAPI]:
    """Two replicas with a key in their settings."""
    await Rebuilder(ports[0].ledger, store, SystemClock()).complete()
    return [make_app(one, store) for one in ports]


@pytest_asyncio.fixture
async def pair(apps: list[FastAPI]) -> AsyncIterator[Pair]:
    async with open_door(apps[0]) as one, open_door(apps[1]) as two:
        yield one, two


def make_app(ports: RealPorts, store: S3ObjectStore) -> FastAPI:
    clock = SystemClock()
    return create_app(
        IngressDeps(
            settings=IngressSettings(api_key=SecretStr(ADMIN_KEY)),
            catalog=load_catalog(None),
            ledger=ports.ledger,
            bus=ports.bus,
            registry=ports.registry,
            store=store,
            signer=UrlSigner(store, clock, 3600),
            completeness=Completeness(ports.ledger, store),
            tenants=KeptTenants(ports.tenants, store, clock),
            references=make_reader(store),
            deliveries=JetStreamDeliveryBook(ports.connection),
            addresses=Outbound(AddressRules()),
        )
    )


def new_name() -> str:
    return f"t-{uuid4().hex[:12]}"


def list_routes() -> list[tuple[str, str]]:
    """Every method and path under /v1 that the API describes."""
    paths: dict[str, dict[str, Any]] = World().make_app().openapi()["paths"]
    routes = [(method.upper(), path) for path, item in paths.items() for method in item if method in METHODS]
    return [route for route in routes if route[1].startswith("/v1/")]


ROUTES = list_routes()
ONE_THING = [route for route in ROUTES if "{" in route[1]]
ALL_THINGS = [route for route in ROUTES if "{" not in route[1] and route[0] == "GET"]


async def submit(client: httpx.AsyncClient, key: str, **headers: str) -> str:
    body = PROMPT | {"prompt": SECRET, "labels": {"secret": LABEL}}
    response = await client.post(JOBS, json=body, headers=bearer(key) | headers)
    assert response.status_code == 202, response.text
    job: str = response.json()["id"]
    return job


async def ask(client: httpx.AsyncClient, method: str, path: str, key: str) -> tuple[int, str]:
    """Status and body; of an endless answer, which this client cannot show before its end, that there is one."""
    content = None if method in {"GET", "HEAD", "DELETE"} else json.dumps(PROMPT).encode()
    headers = bearer(key) | ({"Content-Type": "application/json"} if content else {})
    try:
        async with asyncio.timeout(STREAM_S if path.endswith("/events") else ANSWER_S):
            response = await client.request(method, path, content=content, headers=headers)
    except TimeoutError:
        assert path.endswith("/events"), f"no answer: {method} {path}"
        return 200, ""
    return response.status_code, response.text


def fill(path: str, thing: str) -> str:
    """A path with an id in each place, whatever it is the place of."""
    return re.sub(r"\{[^}]*\}", thing, path)


async def find_differences(pair: Pair, mine: str, theirs: str, job: str) -> dict[str, object]:
    """Routes by which a stranger learns more of the owner's job than of one that never was."""
    nothing, found = make_job_id(SystemClock().now()), {}
    for method, path in ONE_THING:
        status, body = answer = await ask(pair[1], method, fill(path, job), theirs)
        never = await ask(pair[1], method, fill(path, nothing), theirs)
        own = await ask(pair[1], "HEAD", fill(path, job), mine) if path.startswith(JOBS) else (405, "")
        refusals = {403} if path.startswith("/v1/tenants/") else {404} if path.startswith(JOBS) else {400, 404}
        if (status, body.replace(job, nothing)) != never or status not in refusals or SECRET in body or own[0] == 404:
            found[f"{method} {path}"] = answer, never, own
    return found


async def test_a_strangers_thing_is_as_if_it_were_not_there(pair: Pair) -> None:
    """Every route that names one: word for word the answer for a thing that never was, and nothing is changed."""
    mine, theirs = await make_tenant(pair[0], new_name()), await make_tenant(pair[1], new_name())
    job = await submit(pair[0], mine)
    before = await pair[1].get(f"{JOBS}/{job}", headers=bearer(mine))
    assert 200 == before.status_code
    assert {} == await find_differences(pair, mine, theirs, job)
    assert before.json() == (await pair[1].get(f"{JOBS}/{job}", headers=bearer(mine))).json()


async def test_a_strangers_finished_job_is_as_if_it_were_not_there(
    pair: Pair, ports: tuple[RealPorts, RealPorts]
) -> None:
    """Its video, its parameters, its retry: the same for one that has ended."""
    mine, theirs = await make_tenant(pair[0], new_name()), await make_tenant(pair[1], new_name())
    job = await submit(pair[0], mine)
    stamped = await ports[0].ledger.get(job)
    assert stamped is not None
    await ports[0].ledger.replace(stamped, transitions.cancel(stamped.record, SystemClock().now()))
    assert {} == await find_differences(pair, mine, theirs, job)


async def test_lists_hold_nothing_of_a_stranger(pair: Pair) -> None:
    """No id, no prompt, no label, no name, no count; the owner has them. The load of a pool is everybody's."""
    name = new_name()
    mine, theirs = await make_tenant(pair[0], name), await make_tenant(pair[1], new_name())
    before = {path: await ask(pair[1], method, path, theirs) for method, path in ALL_THINGS}
    job = await submit(pair[0], mine)
    for path, (first_status, first) in before.items():
        status, body = await ask(pair[1], "GET", path, theirs)
        assert (first_status, path.startswith("/v1/tenants")) in {(200, False), (403, True)}, path
        assert [] == [word for word in (job, SECRET, LABEL, name) if word in body], path
        if path == "/v1/queue":
            assert json.loads(first)["jobs"] == json.loads(body)["jobs"]
        elif path != "/v1/models":  # measured seconds are of the machines, not of tenants
            assert (first_status, first) == (status, body), path
    assert job in (await ask(pair[1], "GET", JOBS, mine))[1]


async def test_an_event_stream_holds_nothing_of_a_stranger(apps: list[FastAPI], pair: Pair) -> None:
    """A tenant's own events come, another's never."""
    mine, theirs = await make_tenant(pair[0], new_name()), await make_tenant(pair[1], new_name())
    streams = [path for _, path in ALL_THINGS if path.endswith("/events")]
    for path in streams:
        async with listening(apps[1], path, mine) as own, listening(apps[1], path, theirs) as strange:
            await until(lambda own=own, strange=strange: is_open(own, strange))
            job = await submit(pair[0], mine)
            own_job = await submit(pair[0], theirs)
            await until(lambda own=own, job=job: holds(own, job))
            await until(lambda strange=strange, job=own_job: holds(strange, job))
            assert job.encode() not in b"".join(strange)
            assert SECRET.encode() not in b"".join(strange)


async def is_open(*streams: list[bytes]) -> bool:
    return all(streams)


async def holds(stream: list[bytes], word: str) -> bool:
    return word.encode() in b"".join(stream)


@asynccontextmanager
async def listening(app: FastAPI, path: str, key: str) -> AsyncIterator[list[bytes]]:
    """What an endless answer has said so far; first its status. The client goes when the block ends."""
    said: list[bytes] = []
    gone = asyncio.Event()

    async def receive() -> dict[str, Any]:
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: MutableMapping[str, Any]) -> None:
        said.append(message.get("body", b"") or str(message.get("status", "")).encode())

    headers = [(b"host", b"localhost"), (b"authorization", f"Bearer {key}".encode())]
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http",
        "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "", "headers": headers,
        "client": ("127.0.0.1", 1), "server": ("localhost", 80),
    }  # fmt: skip
    answering = asyncio.create_task(app(scope, receive, send))
    try:
        yield said
        assert [b"200"] == said[:1]
    finally:
        gone.set()
        answering.cancel()
        await asyncio.gather(answering, return_exceptions=True)


async def test_an_idempotency_key_is_its_tenants(pair: Pair) -> None:
    """The same key of two tenants is two jobs, at any replica."""
    keys = [await make_tenant(pair[0], new_name()) for _ in range(2)]
    headers = {"Idempotency-Key": f"same {uuid4()}"}
    jobs = [[await submit(client, key, **headers) for client in pair] for key in keys]
    assert [1, 1, 2] == [len(set(jobs[0])), len(set(jobs[1])), len({*jobs[0], *jobs[1]})]


async def test_a_fresh_key_opens_any_replica(pair: Pair) -> None:
    """At once: the other replica waits for the news instead of calling it wrong."""
    name = new_name()
    await make_tenant(pair[0], name)
    for turn in range(20):
        key = await make_key(pair[turn % 2], name, "jobs:read")
        assert 200 == (await pair[1 - turn % 2].get(JOBS, headers=bearer(key))).status_code


async def test_a_revoked_key_is_shut_out_everywhere(pair: Pair) -> None:
    """Where it was revoked at once, elsewhere as soon as the news is there."""
    name = new_name()
    key = await make_tenant(pair[0], name)
    assert [200, 200] == [(await client.get(JOBS, headers=bearer(key))).status_code for client in pair]
    await pair[0].delete(f"/v1/tenants/{name}/keys/{key[:12]}", headers=ADMIN)
    read_error(await pair[0].get(JOBS, headers=bearer(key)), 401, "unauthenticated")

    async def is_shut() -> bool:
        return (await pair[1].get(JOBS, headers=bearer(key))).status_code == 401

    await until(is_shut)


async def test_changes_at_two_replicas_are_all_made(pair: Pair) -> None:
    """Twenty keys made at once at both are twenty keys."""
    name = new_name()
    await make_tenant(pair[0], name)
    keys = await asyncio.gather(*(make_key(pair[turn % 2], name, "jobs:read") for turn in range(20)))
    listed = (await pair[1].get(f"/v1/tenants/{name}/keys", headers=ADMIN)).json()["data"]
    assert {key[:12] for key in keys} <= {row["id"] for row in listed}
    assert 21 == len(listed)


async def test_a_quota_holds_across_replicas(pair: Pair) -> None:
    """What one has accepted the other counts, as soon as it has heard of it."""
    key = await make_tenant(pair[0], new_name(), quotas={"live_jobs": 1})
    await submit(pair[0], key)

    async def is_refused() -> bool:
        response = await pair[1].post(JOBS, json=PROMPT, headers=bearer(key))
        assert response.status_code == 429, response.text
        return "retry-after" in response.headers

    own = "/v1/tenant"

    async def has_heard() -> bool:
        answer: int = (await pair[1].get(own, headers=bearer(key))).json()["usage"]["live_jobs"]
        return answer == 1

    await until(has_heard)
    assert await is_refused()


async def test_a_lost_bucket_locks_nobody_out(
    pair: Pair, ports: tuple[RealPorts, RealPorts], store: S3ObjectStore
) -> None:
    """Neither at a replica that runs nor at one that starts; what was changed meanwhile is changed once."""
    name = new_name()
    key = await make_tenant(pair[0], name, quotas={"live_jobs": 7})
    await call(ports[0].connection, "STREAM.DELETE.KV_VITASCOPE_TENANTS")
    await ensure(ports[0].connection)
    assert 200 == (await pair[0].get(JOBS, headers=bearer(key))).status_code
    async with open_door(make_app(ports[1], store)) as fresh:
        assert 200 == (await fresh.get(JOBS, headers=bearer(key))).status_code
        changed = await fresh.patch(f"/v1/tenants/{name}", json={"quotas": {"queued_jobs": 5}}, headers=ADMIN)
        assert {"gpu_seconds_per_day": None, "live_jobs": 7, "queued_jobs": 5} == changed.json()["quotas"]
        other = await make_key(fresh, name, "jobs:read")
    assert 200 == (await pair[0].get(JOBS, headers=bearer(other))).status_code
