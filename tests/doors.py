"""A door for tests: the whole HTTP application over ports in memory, spoken to without a network."""

import asyncio
import json
import random
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from pydantic import SecretStr

from records import ENGINE
from vitascope.adapters.memory import HeldTime, MemoryBroker, MemoryObjectStore
from vitascope.catalog import Catalog, load_catalog
from vitascope.contracts import transitions
from vitascope.contracts.jobs import JobRecord, ObjectRef, Result
from vitascope.contracts.objects import REBUILT_KEY
from vitascope.contracts.pools import GroupRow, GroupState
from vitascope.ingress import IngressDeps, create_app
from vitascope.ingress.door import get_door
from vitascope.ingress.references import ReferenceReader
from vitascope.outbound import AddressRules, Outbound
from vitascope.publish.signing import UrlSigner
from vitascope.runtime.completeness import Completeness, RebuildMark
from vitascope.runtime.ports import Bus, Ledger, ObjectStore, Stamped
from vitascope.runtime.settings import IngressSettings, ReferencesSettings
from vitascope.runtime.tenants import KeptTenants
from vitascope.screen import PromptScreen

JOBS = "/v1/video-jobs"
PROMPT = {"prompt": "a red circle moving right on a white background"}
KEY = "k-123"

MOMENTS = 50
"""Turns of the event loop that a change takes to every reader of ports in memory, and more."""

__all__ = [
    "JOBS",
    "KEY",
    "ONE_REPLICA",
    "PROMPT",
    "Crash",
    "Faulty",
    "World",
    "get_door",
    "make_reader",
    "open_door",
    "open_pair",
    "read_error",
    "submit",
    "until",
]


def make_reader(
    store: ObjectStore,
    *,
    folder: Path | None = None,
    outbound: Outbound | None = None,
    **settings: Any,
) -> ReferenceReader:
    """A reader of reference media that reaches the public internet only, so nothing here, unless it is given a way."""
    return ReferenceReader(
        ReferencesSettings(**settings),
        outbound or Outbound(AddressRules()),
        store,
        folder or Path(tempfile.gettempdir()),
    )


@dataclass
class World:
    """Everything behind the door; `ledger` and `store` may be wrapped to fail."""

    broker: MemoryBroker = field(default_factory=MemoryBroker)
    store: MemoryObjectStore = field(default_factory=MemoryObjectStore)
    time: HeldTime = field(default_factory=HeldTime)
    catalog: Catalog = field(default_factory=lambda: load_catalog(None))
    marks: MemoryObjectStore = field(default_factory=MemoryObjectStore)
    rng: random.Random = field(default_factory=lambda: random.Random(1))

    def __post_init__(self) -> None:
        """The ledger is marked as complete, in a store of its own, so that `store` has what a test puts there."""
        self.mark_complete()

    def mark_complete(self) -> None:
        """Say that the present ledger holds every job."""
        birth = self.broker.ledger._birth
        self.marks.objects[REBUILT_KEY] = RebuildMark(birth=birth, at=birth).model_dump_json().encode()

    def make_app(
        self,
        *,
        ledger: Ledger | None = None,
        bus: Bus | None = None,
        store: ObjectStore | None = None,
        catalog: Catalog | None = None,
        prompt_screen: PromptScreen | None = None,
        **settings: Any,
    ) -> FastAPI:
        """One replica."""
        if isinstance(settings.get("api_key"), str):
            settings["api_key"] = SecretStr(settings["api_key"])
        chosen = store or self.store
        deps = IngressDeps(
            settings=IngressSettings(**settings),
            catalog=catalog or self.catalog,
            ledger=ledger or self.broker.ledger,
            bus=bus or self.broker.bus,
            registry=self.broker.registry,
            store=chosen,
            signer=UrlSigner(chosen, self.time, 3600),
            completeness=Completeness(self.broker.ledger, self.marks),
            tenants=KeptTenants(self.broker.tenants, self.store, self.time),
            references=make_reader(chosen),
            deliveries=self.broker.deliveries,
            addresses=Outbound(AddressRules()),
            clock=self.time,
            rng=self.rng,
            prompt_screen=prompt_screen,
        )
        return create_app(deps)

    async def count_jobs(self) -> int:
        """Jobs in the ledger."""
        count = 0
        async with self.broker.ledger.watch() as changes:
            async for stamped in changes:
                if stamped is None:
                    break
                count += 1
        return count

    async def load(self, job: str) -> Stamped:
        """The ledger's record of a job that is there."""
        stamped = await self.broker.ledger.get(job)
        assert stamped is not None, f"no record of {job}"
        return stamped

    async def change(self, job: str, *records: JobRecord) -> Stamped:
        """Put one or more successors of a job's record into the ledger."""
        stamped = await self.load(job)
        for record in records:
            stamped = await self.broker.ledger.replace(stamped, record)
        return stamped

    async def start(self, job: str, group: str = "g0") -> Stamped:
        """Queued to running."""
        return await self.change(job, transitions.start((await self.load(job)).record, group, self.time.now()))

    async def finish(self, job: str, video: bytes = b"video", still: bytes = b"still") -> Stamped:
        """Queued to succeeded, with files in the store."""
        now = self.time.now()
        record = (await self.start(job)).record
        output = await self.store.put(f"outputs/default/{job}/1/video.mp4", video, "video/mp4")
        thumbnail = await self.store.put(f"outputs/default/{job}/1/thumbnail.jpg", still, "image/jpeg")
        denoised = _denoise(record, output, self.time)
        decoded = transitions.finish_decode(denoised, 1, chunks=5, stage_s=1.0, now=now)
        result = Result(output=output, thumbnail=thumbnail, num_frames=17, fps=record.request.fps, duration_s=2.125)
        return await self.change(job, denoised, decoded, transitions.succeed(decoded, 1, result, stage_s=1.0, now=now))

    async def keep_rows(self, *pools: str, state: GroupState = GroupState.IDLE) -> None:
        """Rows of processes that are alive now."""
        for pool in pools:
            models = () if "-" in pool else ("tiny-wan",)
            row = GroupRow(pool=pool, group="g0", models=models, state=state, holder="h", seen=self.time.now())
            await self.broker.registry.put_group(row)


def _denoise(record: JobRecord, latents: ObjectRef, time: HeldTime) -> JobRecord:
    return transitions.finish_denoise(
        record,
        1,
        latents=latents,
        engine=ENGINE,
        gpu_s=1.0,
        stage_s=1.0,
        now=time.now(),
    )


@asynccontextmanager
async def open_door(app: FastAPI, **options: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A client of an application whose followers run and have seen what is there."""
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=options.pop("raise_app_exceptions", True))
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://localhost", **options) as client,
    ):
        await get_door(app).jobs.wait_synced(5)
        yield client


ONE_REPLICA = pytest.mark.parametrize("client", ["one"], indirect=True)
"""For a test that looks at the insides of the replica that answers it."""


class RoundRobin(httpx.AsyncBaseTransport):
    """Replicas behind a load balancer: each request goes to the next one, until all but the last are gone.

    What one has changed is seen by the others within moments; a request waits for that, as a person would.
    """

    def __init__(self, apps: Sequence[FastAPI], *, gone_after: int) -> None:
        self.app = apps[-1]
        self._doors = [httpx.ASGITransport(app=app) for app in apps]
        self._gone_after, self._count = gone_after, 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        for _ in range(MOMENTS):
            await asyncio.sleep(0)
        alive = self._doors if self._count < self._gone_after else self._doors[-1:]
        door = alive[self._count % len(alive)]
        self._count += 1
        return await door.handle_async_request(request)


@asynccontextmanager
async def open_pair(first: FastAPI, second: FastAPI, *, gone_after: int) -> AsyncIterator[httpx.AsyncClient]:
    """A client of two replicas, of which the first is gone after so many requests."""
    async with first.router.lifespan_context(first), second.router.lifespan_context(second):
        for app in (first, second):
            await get_door(app).jobs.wait_synced(5)
        transport = RoundRobin((first, second), gone_after=gone_after)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            yield client


class Crash(Exception):
    """The replica dies here."""


class Faulty:
    """A port of which one method fails, before or after its deed, for as many calls as `times` says."""

    def __init__(self, port: Any, method: str, error: Exception, *, is_after: bool = False, times: int = 1) -> None:
        self._port, self._method, self._error = port, method, error
        self._is_after, self._times = is_after, times

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._port, name)
        if name != self._method or self._times == 0:
            return real
        self._times -= 1
        return self._fail(real)

    def _fail(self, real: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def fail(*args: Any, **options: Any) -> Any:
            if self._is_after:
                await real(*args, **options)
            raise self._error

        return fail


async def submit(client: httpx.AsyncClient, key: str | None = None, **body: Any) -> dict[str, Any]:
    """A job that is accepted."""
    headers = {"Idempotency-Key": key} if key else {}
    response = await client.post(JOBS, json=PROMPT | body, headers=headers)
    assert response.status_code == 202, response.text
    view: dict[str, Any] = response.json()
    return view


def read_error(response: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """The error of an answer that has the one shape, the status and the code."""
    assert response.status_code == status, response.text
    body = response.json()
    assert {"message", "type", "param", "code"} == set(body["error"]), body
    assert code == body["error"]["code"], body
    assert isinstance(body["error"]["message"], str), body
    assert "Traceback" not in json.dumps(body)
    assert str(Path(__file__).parent) not in json.dumps(body)
    return body["error"]  # type: ignore[no-any-return]


async def until(is_so: Callable[[], object], turns: int = 5_000) -> None:
    """Let the event loop turn until something is so."""
    for _ in range(turns):
        if is_so():
            return
        await asyncio.sleep(0)
    raise AssertionError("it did not come about")
