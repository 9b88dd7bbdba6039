"""The deliver process against real servers and receivers on loopback: good ones, slow ones and hostile ones."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest
from standardwebhooks import Webhook

from contract.waiting import until_true
from hooks import job_event, subscription
from receivers import Receiver, receiving
from servers import RunningNats, RunningS3, running_nats, running_s3
from vitascope.adapters.jetstream import (
    Connection,
    JetStreamBus,
    JetStreamDeliveryBook,
    JetStreamTenantTable,
    ensure,
)
from vitascope.adapters.s3 import S3Client, S3ObjectStore, ensure_bucket
from vitascope.contracts.deliveries import Delivery, DeliveryPlace, DeliveryState
from vitascope.contracts.expiry import Retention
from vitascope.contracts.flow import State
from vitascope.contracts.subjects import event_subject
from vitascope.contracts.tenants import Tenant
from vitascope.contracts.webhooks import END_EVENTS, Subscription, find_subscription, put_subscription
from vitascope.publish.webhooks.courier import TIMEOUT_S
from vitascope.publish.webhooks.service import LEASE_S
from vitascope.runtime.ports import SystemClock
from vitascope.runtime.settings import S3Settings
from vitascope.runtime.tenants import KeptTenants

DEADLINE_S = 120.0
FLOOD_MAX_BYTES = 16 * 1024**2
"""What the buffers of two sockets take of an answer that nobody reads."""
LOOPBACK = {"VITASCOPE_WEBHOOKS__ALLOW_NETWORKS": '["127.0.0.1/32"]'}
RETENTION: Retention = S3Settings().retention


class Service:
    """Servers of the test's own, what is in them, and the deliver process."""

    def __init__(self, nats: RunningNats, s3: RunningS3, connection: Connection, store: S3ObjectStore) -> None:
        self._nats, self._s3 = nats, s3
        self._bus = JetStreamBus(connection)
        self.book = JetStreamDeliveryBook(connection)
        self.tenants = KeptTenants(JetStreamTenantTable(connection), store, SystemClock())
        self.tenant = f"t-{uuid4().hex[:12]}"

    async def start(self, folder: Path, **more: str) -> asyncio.subprocess.Process:
        """`python -m vitascope deliver`."""
        env = {
            "VITASCOPE_NATS__URL": self._nats.plain_url,
            "VITASCOPE_NATS__USER": self._nats.user,
            "VITASCOPE_NATS__PASSWORD": self._nats.password,
            "VITASCOPE_S3__ENDPOINT": self._s3.endpoint,
            "VITASCOPE_S3__ACCESS_KEY": self._s3.access_key,
            "VITASCOPE_S3__SECRET_KEY": self._s3.secret_key,
        }
        with (folder / "deliver.log").open("ab") as log:
            return await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "vitascope", "deliver"), env={**os.environ, **env, **more}, stderr=log
            )

    async def subscribe(self, url: str, events: tuple[str, ...] = END_EVENTS) -> Subscription:
        """A webhook of the test's tenant."""
        row = subscription(datetime.now(UTC), url=url, events=events)

        def put(tenant: Tenant) -> Tenant:
            return tenant.model_copy(update={"webhooks": put_subscription(tenant.webhooks, row)})

        await self.tenants.change(self.tenant, put)
        return row

    async def publish(self, count: int, state: State = State.SUCCEEDED) -> list[str]:
        """Events of so many new jobs; their ids."""
        events = [job_event(state, datetime.now(UTC), tenant=self.tenant) for _ in range(count)]
        for event in events:
            subject = event_subject(self.tenant, event.subject or "", event.type)
            await self._bus.publish_event(subject, event)
        return [event.id for event in events]

    async def log_of(self, row: Subscription) -> list[Delivery]:
        """The deliveries of a webhook."""
        ids = await self.book.list_ids(self.tenant, row.id)
        found = [await self.book.get(DeliveryPlace(self.tenant, row.id, delivery)) for delivery in ids]
        return [stamped.delivery for stamped in found if stamped is not None]


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    async with running_nats(tmp_path / "nats") as nats, running_s3(tmp_path / "s3") as s3:
        client = S3Client(
            s3.endpoint, access_key=s3.access_key, secret_key=s3.secret_key, bucket="vitascope", region=s3.region
        )
        async with Connection(nats.url) as connection, client:
            await ensure(connection)
            await ensure_bucket(client, RETENTION)
            made = Service(nats, s3, connection, S3ObjectStore(client))
            await made.tenants.create(Tenant(name=made.tenant, created=datetime.now(UTC)))
            yield made


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as made:
        yield made


@asynccontextmanager
async def delivering(service: Service, folder: Path, **more: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await service.start(folder, **more)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        await process.wait()
    assert 0 == process.returncode, (folder / "deliver.log").read_text()[-3000:]


async def until(holds: Callable[[], bool]) -> None:
    await until_true(holds, DEADLINE_S)


async def test_bad_receivers_cost_nobody_else(service: Service, receiver: Receiver, tmp_path: Path) -> None:
    """While some hang, flood, lie and redirect, everybody else has everything, verified, once, at once."""
    bad = ("hang", "drip", "flood", "noise", "redirect", "down")
    rows = {name: await service.subscribe(f"{receiver.url}/{name}") for name in (*bad, "flaky", "gone", "ok")}
    async with delivering(service, tmp_path, **LOOPBACK):
        ids = await service.publish(20)
        loop = asyncio.get_running_loop()
        await until(lambda: len(receiver.ids("/ok")) > 0)
        began_s = loop.time()
        await until(lambda: len(receiver.ids("/ok")) >= 20)
        assert loop.time() - began_s < TIMEOUT_S, "the good one did not wait for a time limit of a bad one"
        await until(lambda: set(receiver.ids("/flaky")) == set(ids) and len(receiver.ids("/flaky")) >= 40)
        await asyncio.sleep(TIMEOUT_S)  # whatever was open has ended by now
        tries = {name: await service.log_of(row) for name, row in rows.items()}
    assert sorted(ids) == sorted(receiver.ids("/ok"))
    key = rows["ok"].secrets[0].secret
    for message in receiver.received:
        assert "job.succeeded" == Webhook(key).verify(message.body, message.headers)["type"]
    assert [] == receiver.ids("/inside")
    assert receiver.flooded_bytes < len(receiver.ids("/flood")) * FLOOD_MAX_BYTES
    assert 1 <= len(receiver.ids("/gone")) <= 4
    states = {name: {row.state for row in log} for name, log in tries.items()}
    assert {DeliveryState.DELIVERED} == states["ok"] == states["flaky"]
    assert {DeliveryState.DEAD} == states["gone"]
    for name in bad[:2] + bad[3:]:
        assert {DeliveryState.PENDING} == states[name], name
    words = {name: {a.error or a.status_code for row in log for a in row.attempts} for name, log in tries.items()}
    assert {
        "hang": {"fetch_failed"},
        "drip": {"fetch_failed"},
        "noise": {"fetch_failed"},
        "redirect": {307},
        "down": {503},
    } == {name: words[name] for name in ("hang", "drip", "noise", "redirect", "down")}
    tenant = await service.tenants.get(service.tenant)
    assert tenant is not None
    assert (gone := find_subscription(tenant.webhooks, rows["gone"].id)) is not None
    assert gone.disabled is not None


async def test_nothing_is_lost_when_the_process_is_killed(service: Service, receiver: Receiver, tmp_path: Path) -> None:
    """In the middle of it, by SIGKILL: the next one delivers the rest; only what was open may come twice."""
    await service.subscribe(f"{receiver.url}/ok")
    first = await service.start(tmp_path, **LOOPBACK)
    ids = await service.publish(100)
    try:
        await until(lambda: len(receiver.received) >= 40)
    finally:
        first.kill()
        await first.wait()
    ids += await service.publish(50)
    async with delivering(service, tmp_path, **LOOPBACK):
        await until_true(lambda: set(receiver.ids("/ok")) >= set(ids), DEADLINE_S + LEASE_S)
        await asyncio.sleep(1)
    assert set(ids) == set(receiver.ids("/ok"))
    assert len(receiver.received) <= len(ids) + 4


async def test_private_addresses_are_not_reached(service: Service, receiver: Receiver, tmp_path: Path) -> None:
    """However the address came into the tenant's document: it is judged again when something is sent."""
    name = f"http://localhost:{receiver.url.rpartition(':')[2]}/ok"
    rows = [await service.subscribe(url) for url in (f"{receiver.url}/ok", name, "http://169.254.169.254/latest")]
    async with delivering(service, tmp_path):
        await service.publish(1)
        logs: list[list[Delivery]] = []

        async def read() -> None:
            while not all(log and log[0].attempts for log in logs) or not logs:
                logs[:] = [await service.log_of(row) for row in rows]
                await asyncio.sleep(0.1)

        async with asyncio.timeout(DEADLINE_S):
            await read()
    assert [{"address_not_allowed"}] * 3 == [{attempt.error for row in log for attempt in row.attempts} for log in logs]
    assert [] == receiver.received
