"""Two replicas of the door over a real NATS server and a real S3 server."""

import asyncio
from collections.abc import AsyncIterator
from uuid import uuid4

import httpx
import pytest_asyncio
from fastapi import FastAPI

from contract.real import RETENTION, real_ports, s3_client
from doors import JOBS, PROMPT, get_door, make_reader, open_door, submit
from records import ENGINE
from servers import RunningNats, RunningS3
from vitascope.adapters.jetstream import Connection, ensure
from vitascope.adapters.s3 import S3ObjectStore, ensure_bucket
from vitascope.catalog import load_catalog
from vitascope.contracts import transitions
from vitascope.contracts.events import Progress
from vitascope.contracts.failures import Failure, FailureCode
from vitascope.contracts.flow import Stage
from vitascope.contracts.jobs import JobRecord, Result
from vitascope.contracts.objects import latents_key, output_key, record_key, record_keys
from vitascope.contracts.subjects import progress_subject, work_subject
from vitascope.ingress import IngressDeps, create_app
from vitascope.outbound import AddressRules, Outbound
from vitascope.publish import Publisher, UrlSigner
from vitascope.runtime.completeness import Completeness
from vitascope.runtime.ports import SystemClock
from vitascope.runtime.rebuild import Rebuilder
from vitascope.runtime.settings import IngressSettings
from vitascope.runtime.tenants import KeptTenants

TURNS = 3_000


@pytest_asyncio.fixture
async def pair(nats_server: RunningNats, s3_server: RunningS3) -> AsyncIterator[list[IngressDeps]]:
    """What two replicas are made of: a connection and a client each."""
    clock = SystemClock()
    async with Connection(nats_server.url) as one, Connection(nats_server.url) as two, s3_client(s3_server) as client:
        await ensure(one)
        await ensure_bucket(client, RETENTION)
        store = S3ObjectStore(client)
        await Rebuilder(real_ports(one).ledger, store, clock).complete()
        yield [
            IngressDeps(
                settings=IngressSettings(),
                catalog=load_catalog(None),
                ledger=ports.ledger,
                bus=ports.bus,
                registry=ports.registry,
                store=store,
                signer=UrlSigner(store, clock, 3600),
                completeness=Completeness(ports.ledger, store),
                tenants=KeptTenants(ports.tenants, store, clock),
                references=make_reader(store),
                deliveries=ports.deliveries,
                addresses=Outbound(AddressRules()),
            )
            for ports in (real_ports(one), real_ports(two))
        ]


async def _until_status(client: httpx.AsyncClient, job: str, status: str) -> None:
    for _ in range(TURNS):
        if (await client.get(f"{JOBS}/{job}")).json()["status"] == status:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"the job does not become {status}")


async def test_one_job_through_two_replicas(pair: list[IngressDeps]) -> None:
    """Made at one by twins with one key, seen, followed and cancelled at the other; event and copy are published."""
    apps = [create_app(deps) for deps in pair]
    async with open_door(apps[0]) as one, open_door(apps[1]) as other:
        key = f"key {uuid4()} .*>/"
        sends = [door.post(JOBS, json=PROMPT, headers={"Idempotency-Key": key}) for door in (one, other) * 5]
        answers = await asyncio.gather(*sends)
        assert {202} == {answer.status_code for answer in answers}, answers[0].text
        (job,) = {answer.json()["id"] for answer in answers}
        deps = pair[0]
        record = await _check_copy(deps, job)
        await _start(deps, job)
        await _until_status(other, job, "running")
        await _show_progress(apps[1], deps, job)
        view = (await other.get(f"{JOBS}/{job}")).json()
        assert (7, "denoise") == (view["step"], view["stage"])
        publishing = asyncio.create_task(Publisher(deps.ledger, deps.bus, deps.store, deps.clock).run())
        response = await other.post(f"{JOBS}/{job}/cancel")
        assert (200, "cancelled") == (response.status_code, response.json()["status"])
        await _until_copy_has_ended(deps, record)
        publishing.cancel()
        await asyncio.wait({publishing})
        listed = (await one.get(JOBS, params={"status": "cancelled", "limit": 100})).json()["data"]
        assert job in [item["id"] for item in listed]


async def test_a_failed_job_is_retried_once_through_two_replicas(pair: list[IngressDeps]) -> None:
    """With a copy of the latents that the S3 server made, the event of decode, and the record's copy."""
    latents = bytes(range(256)) * 4_000
    deps = pair[0]
    async with open_door(create_app(deps)) as one, open_door(create_app(pair[1])) as other:
        job = (await submit(one))["id"]
        await _fail_decode(deps, job, latents)
        answers = await asyncio.gather(*(door.post(f"{JOBS}/{job}/retry") for door in (one, other) * 3))
        assert {202} == {answer.status_code for answer in answers}, answers[0].text
        (retried,) = {answer.json()["id"] for answer in answers}
        record = await _check_copy(deps, retried)
        assert record.run.latents is not None
        assert (latents_key(record, 1), latents) == (record.run.latents.key, await deps.store.get(record.run.latents))
        subject = work_subject(Stage.DECODE, "default", retried)
        assert await deps.bus.has_work(subject)
        await _until_retried(other, job, retried)
        await deps.bus.drop_work(subject)
        assert 200 == (await other.post(f"{JOBS}/{retried}/cancel")).status_code


async def test_a_file_is_served_in_ranges_from_the_store(pair: list[IngressDeps]) -> None:
    """Bytes that the S3 server holds, glued together, and the signed URL gives the same."""
    deps = pair[0]
    film = bytes(range(256)) * 12_000
    async with open_door(create_app(deps)) as client:
        job = (await submit(client))["id"]
        await _finish(deps, job, film)
        content = f"{JOBS}/{job}/content"
        cuts = [(0, 1_048_575), (1_048_576, 1_048_576), (1_048_577, len(film) - 1)]
        pieces = [(await client.get(content, headers={"range": f"bytes={a}-{b}"})).content for a, b in cuts]
        assert film == b"".join(pieces)
        url = (await client.get(f"{JOBS}/{job}")).json()["result"]["video_url"]
    async with httpx.AsyncClient() as anybody:
        signed = await anybody.get(url, headers={"range": "bytes=0-0"})
        assert (206, film[:1]) == (signed.status_code, signed.content)


async def _fail_decode(deps: IngressDeps, job: str, latents: bytes) -> None:
    """Queued to failed at decode, the latents in the store."""
    now = deps.clock.now()
    stamped = await deps.ledger.get(job)
    assert stamped is not None
    stored = await deps.store.put(latents_key(stamped.record, 1), latents, "application/vnd.safetensors")
    started = transitions.start(stamped.record, "g0", now)
    denoised = transitions.finish_denoise(started, 1, latents=stored, engine=ENGINE, gpu_s=1.0, stage_s=1.0, now=now)
    failed = transitions.fail(denoised, 1, Failure.of(FailureCode.DECODE_FAILED, stage=Stage.DECODE), now)
    for record in (started, denoised, failed):
        stamped = await deps.ledger.replace(stamped, record)


async def _until_retried(client: httpx.AsyncClient, job: str, retried: str) -> None:
    for _ in range(TURNS):
        if (await client.get(f"{JOBS}/{job}")).json()["retried_as"] == retried:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("the failed job does not name its retry")


async def _check_copy(deps: IngressDeps, job: str) -> JobRecord:
    stamped = await deps.ledger.get(job)
    assert stamped is not None
    assert stamped.record == JobRecord.from_bytes(await deps.store.get(record_key(stamped.record)))
    return stamped.record


async def _start(deps: IngressDeps, job: str) -> None:
    stamped = await deps.ledger.get(job)
    assert stamped is not None
    await deps.ledger.replace(stamped, transitions.start(stamped.record, "g0", deps.clock.now()))


async def _show_progress(app: FastAPI, deps: IngressDeps, job: str) -> None:
    shown = Progress(job=job, attempt=1, stage="denoise", step=7, steps=24, time=deps.clock.now())
    await deps.bus.publish_progress(progress_subject("default", job), shown)
    for _ in range(TURNS):
        if get_door(app).progress.find(job, 1, Stage.DENOISE) is not None:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("no progress has come")


async def _until_copy_has_ended(deps: IngressDeps, record: JobRecord) -> None:
    ended, _ = record_keys(record)
    for _ in range(TURNS):
        if await deps.store.size(ended) is not None:
            assert JobRecord.from_bytes(await deps.store.get(ended)).is_terminal
            return
        await asyncio.sleep(0.01)
    raise AssertionError("the copy does not say that the job has ended")


async def _finish(deps: IngressDeps, job: str, film: bytes) -> None:
    """Queued to succeeded, the file in the store."""
    now = deps.clock.now()
    stamped = await deps.ledger.get(job)
    assert stamped is not None
    output = await deps.store.put(output_key(stamped.record, 1), film, "video/mp4")
    started = transitions.start(stamped.record, "g0", now)
    denoised = transitions.finish_denoise(started, 1, latents=output, engine=ENGINE, gpu_s=1.0, stage_s=1.0, now=now)
    decoded = transitions.finish_decode(denoised, 1, chunks=1, stage_s=1.0, now=now)
    done = transitions.succeed(decoded, 1, Result(output=output), stage_s=1.0, now=now)
    for record in (started, denoised, decoded, done):
        stamped = await deps.ledger.replace(stamped, record)
