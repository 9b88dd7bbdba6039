"""Expiry and the janitor over a real NATS server and a real S3 server."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio

from contract.real import RealPorts, real_ports, s3_client
from contract.waiting import until
from doors import JOBS, make_reader, open_door
from publishing import publishing
from records import record_in
from servers import RunningNats, RunningS3, running_nats
from unit.publish.kept import name_files, with_files
from vitascope.adapters.jetstream import Connection, ensure
from vitascope.adapters.jetstream.ledger import compare_and_set
from vitascope.adapters.s3 import S3Client, S3ObjectStore, ensure_bucket
from vitascope.catalog import load_catalog
from vitascope.contracts import objects
from vitascope.contracts.events import WorkItem
from vitascope.contracts.expiry import Retention
from vitascope.contracts.flow import Stage, State
from vitascope.contracts.jobs import JobRecord
from vitascope.contracts.subjects import BUCKET_JOBS, work_subject
from vitascope.ingress import IngressDeps, create_app
from vitascope.local import audit
from vitascope.outbound import AddressRules, Outbound
from vitascope.publish import Publisher, UrlSigner
from vitascope.publish.epoch import MARK_KEY
from vitascope.publish.janitor import Janitor
from vitascope.runtime.completeness import Completeness, RebuildMark, save_mark
from vitascope.runtime.copies import put_copy
from vitascope.runtime.ports import ObjectEntry, SystemClock, UnfinishedUpload, UnreadableRecord
from vitascope.runtime.settings import IngressSettings
from vitascope.runtime.tenants import KeptTenants

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
WEEK = Retention(files=7 * DAY, record=30 * DAY)
SOON = Retention(files=timedelta(seconds=3), record=timedelta(seconds=4))
LIMIT_S = 60.0
"""What takes longer has failed."""


class AgedStore:
    """A real store whose objects and uploads are seven hours older than they are, but for the mark of the time."""

    def __init__(self, store: S3ObjectStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def scan(self, prefix: str) -> AsyncIterator[ObjectEntry]:
        async for entry in self._store.scan(prefix):
            yield entry if entry.key == MARK_KEY else replace(entry, modified=entry.modified - 7 * HOUR)

    async def list_uploads(self) -> Sequence[UnfinishedUpload]:
        return [replace(upload, begun=upload.begun - 7 * HOUR) for upload in await self._store.list_uploads()]


class OldLedger:
    """A real ledger that is a day older than it is."""

    def __init__(self, ports: RealPorts) -> None:
        self._ledger = ports.ledger

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    async def get_birth(self) -> datetime:
        return await self._ledger.get_birth() - DAY


@dataclass(frozen=True)
class Service:
    """Servers of this test's own."""

    nats: RunningNats
    s3: RunningS3
    ports: RealPorts
    client: S3Client
    store: S3ObjectStore

    async def complete(self, birth: datetime) -> None:
        """Say that the ledger holds every job."""
        await save_mark(self.store, RebuildMark(birth=birth, at=SystemClock().now()))

    async def add(self, state: State, **changes: Any) -> JobRecord:
        """A job with its copy and an object of each class."""
        record = with_files(record_in(state, SystemClock().now()), **changes)
        await put_copy(self.store, record)
        await self.put(*name_files(record))
        await self.ports.ledger.create(record)
        return record

    async def put(self, *keys: str) -> None:
        """Objects of three bytes."""
        for key in keys:
            await self.store.put(key, b"123", "application/octet-stream")

    async def list_classes(self, job: str) -> list[str]:
        """What the store has of a job."""
        return [key.split("/")[0] for key in await self.store.list("") if f"/{job}/" in key]

    async def publish(self, job: str, stage: Stage, group: str | None = None) -> str:
        """A work event."""
        subject = work_subject(stage, "default", job, group)
        work = WorkItem(job=job, tenant="default", attempt=1, stage=stage)
        await self.ports.bus.publish_work(subject, work.to_event(SystemClock().now()))
        return subject


@pytest_asyncio.fixture
async def service(tmp_path: Path, s3_server: RunningS3) -> AsyncIterator[Service]:
    """A NATS server and a bucket that nobody else uses."""
    bucket = f"janitor-{uuid4().hex[:12]}"
    async with (
        running_nats(tmp_path) as nats,
        Connection(nats.url) as connection,
        s3_client(s3_server, bucket=bucket) as client,
    ):
        await ensure(connection)
        await ensure_bucket(client, WEEK)
        yield Service(nats, s3_server, real_ports(connection), client, S3ObjectStore(client))


def _publishing(service: Service, retention: Retention) -> AbstractAsyncContextManager[None]:
    ports, clock = service.ports, SystemClock()
    janitor = Janitor(
        ports.ledger, ports.bus, ports.registry, service.store, clock=clock, holder="here:1", retention=retention
    )
    return publishing(Publisher(ports.ledger, ports.bus, service.store, clock), janitor)


async def test_a_result_expires_and_is_forgotten(service: Service) -> None:
    """The content is gone with 410, the files with it, the job is remembered for a while; then nothing is left."""
    await service.complete(await service.ports.ledger.get_birth())
    ports, clock = service.ports, SystemClock()
    deps = IngressDeps(
        settings=IngressSettings(),
        catalog=load_catalog(None),
        ledger=ports.ledger,
        bus=ports.bus,
        registry=ports.registry,
        store=service.store,
        signer=UrlSigner(service.store, clock, 3600),
        completeness=Completeness(ports.ledger, service.store),
        tenants=KeptTenants(ports.tenants, service.store, clock),
        references=make_reader(service.store),
        deliveries=ports.deliveries,
        addresses=Outbound(AddressRules()),
        retention=SOON,
    )
    record = await service.add(State.SUCCEEDED)
    async with open_door(create_app(deps)) as client, _publishing(service, SOON):
        content = f"{JOBS}/{record.id}/content"
        assert 200 == (await client.get(content)).status_code
        view = (await client.get(f"{JOBS}/{record.id}")).json()
        assert record.times.finished is not None
        assert record.times.finished + SOON.files == datetime.fromisoformat(view["expires_at"])

        async def is_gone() -> bool:
            return (await client.get(content)).status_code == 410

        async def has_only_its_copy() -> bool:
            return await service.list_classes(record.id) == ["records"]

        async def is_unknown() -> bool:
            return (await client.get(f"{JOBS}/{record.id}")).status_code == 404

        await until(is_gone, LIMIT_S)
        await until(has_only_its_copy, LIMIT_S)
        assert "expired" == (await client.get(f"{JOBS}/{record.id}")).json()["status"]
        await until(is_unknown, LIMIT_S)
        assert [] == await service.list_classes(record.id)
        assert await ports.ledger.get(record.id) is None


async def test_orphans_of_every_kind_and_nothing_else(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Objects, a copy, an upload, events and a consumer go; what live and failed jobs need stays."""
    monkeypatch.setattr("vitascope.publish.janitor.WORK_AGE", timedelta(0))
    monkeypatch.setattr("vitascope.publish.groups_seen.SILENCE", timedelta(0))
    ledger, store, now = OldLedger(service.ports), AgedStore(service.store), SystemClock().now()
    await service.complete(await ledger.get_birth())
    live, failed = await service.add(State.RUNNING, attempt=2), await service.add(State.FAILED)
    await service.put(*name_files(live, 2))
    stray, never, lost = (record_in(State.QUEUED, now) for _ in range(3))
    lost = lost.model_copy(update={"id": record_in(State.QUEUED, now - 2 * DAY).id})
    await service.put(*name_files(stray), *name_files(lost), "models/wan/model.safetensors")
    for record in (never, lost):
        await put_copy(service.store, record)
    service.client.minio._create_multipart_upload(  # the client has no public way to leave one unfinished
        service.client.bucket, objects.output_key(live, 2), {}
    )
    wanted = await service.publish(live.id, Stage.DENOISE, "g0")
    for job, group in ((live.id, "g1"), (failed.id, "g0"), (stray.id, "g0")):
        await service.publish(job, Stage.DENOISE, group)
    async with service.ports.bus.consume(Stage.DENOISE, "default", "ghost"):
        pass
    janitor = Janitor(
        ledger, service.ports.bus, service.ports.registry, store,
        clock=SystemClock(), holder="here:1", retention=WEEK,
    )  # fmt: skip
    assert await janitor._look()
    assert await janitor.run_round()
    left = {record.id: await service.list_classes(record.id) for record in (stray, never, failed, lost)}
    everything = sorted(kind.value for kind in objects.ObjectClass)
    assert {
        stray.id: [],
        never.id: [],
        failed.id: ["checkpoints", "inputs", "latents", "records"],
        lost.id: everything,
    } == left, "what the ledger lost is for its rebuild"
    kept = {key for key in await service.store.list("") if live.id in key}
    first = objects.checkpoint_key(live, 1, 10)
    assert {first, objects.record_key(live), *name_files(live, 2)} == kept
    assert await service.store.size("models/wan/model.safetensors") == 3
    assert ([], [wanted]) == (list(await service.store.list_uploads()), list(await service.ports.bus.list_work()))
    assert [] == list(await service.ports.bus.drop_idle_consumers([])), "the one that nobody uses is gone"


async def test_a_record_that_cannot_be_read_stops_nothing(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever belongs to its job stays, copy and event included; the orphans of others go."""
    monkeypatch.setattr("vitascope.publish.janitor.WORK_AGE", timedelta(0))
    ledger, store, now = OldLedger(service.ports), AgedStore(service.store), SystemClock().now()
    await service.complete(await ledger.get_birth())
    damaged, stray = record_in(State.RUNNING, now), record_in(State.QUEUED, now)
    await put_copy(service.store, damaged)
    await service.put(*name_files(damaged), *name_files(stray))
    subject = f"$KV.{BUCKET_JOBS}.{damaged.id}"
    await compare_and_set(service.ports.connection, subject, b'{"version": 99}', revision=0)
    with pytest.raises(UnreadableRecord):
        await service.ports.ledger.get(damaged.id)
    wanted = await service.publish(damaged.id, Stage.DENOISE, "g0")
    janitor = Janitor(
        ledger, service.ports.bus, service.ports.registry, store,
        clock=SystemClock(), holder="here:1", retention=WEEK,
    )  # fmt: skip
    assert await janitor._look()
    assert await janitor.run_round()
    assert [] == await service.list_classes(stray.id)
    assert {kind.value for kind in objects.ObjectClass} == set(await service.list_classes(damaged.id))
    assert [wanted] == list(await service.ports.bus.list_work())


async def test_doctor_looks_at_a_running_service(service: Service) -> None:
    """From a process of its own: an event that nobody waits for, and a job that has none."""
    await service.complete(await service.ports.ledger.get_birth())
    stalled = await service.add(State.DECODING)
    useless = await service.publish((await service.add(State.SUCCEEDED)).id, Stage.DECODE)
    nats, s3 = service.nats, service.s3
    env = {
        **os.environ,
        "VITASCOPE_NATS__URL": nats.plain_url,
        "VITASCOPE_NATS__USER": nats.user,
        "VITASCOPE_NATS__PASSWORD": nats.password,
        "VITASCOPE_S3__ENDPOINT": s3.endpoint,
        "VITASCOPE_S3__ACCESS_KEY": s3.access_key,
        "VITASCOPE_S3__SECRET_KEY": s3.secret_key,
        "VITASCOPE_S3__BUCKET": service.client.bucket,
    }
    before = await service.store.list("")
    found = await asyncio.to_thread(audit.audit, env)
    assert (work_subject(Stage.DECODE, "default", stalled.id),) == found.stalled.names
    assert {"object": 0, "copy": 0, "upload": 0, "work event": 1} == {f.kind: f.count for f in found.orphans}
    assert [useless] == list(await service.ports.bus.list_work()), "a look changes nothing"
    assert before == await service.store.list("")
    assert found.is_complete
