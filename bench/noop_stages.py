"""What the pipeline itself costs a job: stages that compute nothing, on a real NATS and a real S3 server.

    PYTHONPATH=tests python -m bench.noop_stages [--jobs 200]

All parts run in one process, so that its one core is the limit and everything can be counted: jobs a second from
request to success, calls of each port and the seconds spent waiting for them, messages in each stream.
"""

import argparse
import asyncio
import json
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from numpy.typing import NDArray

from doors import make_reader
from servers import running_nats, running_s3
from vitascope.adapters.jetstream import Connection, JetStreamBus, JetStreamLedger, JetStreamRegistry, ensure
from vitascope.adapters.memory import MemoryBroker
from vitascope.adapters.s3 import S3Client, S3ObjectStore, ensure_bucket
from vitascope.catalog import load_catalog
from vitascope.contracts.jobs import Engine, VideoRequest
from vitascope.contracts.pools import GroupRow, GroupState
from vitascope.decode.handler import DecodeHandler
from vitascope.denoise.denoiser import OnStep
from vitascope.denoise.group import GroupHeartbeat
from vitascope.denoise.handler import DenoiseHandler
from vitascope.encode.handler import EncodeHandler
from vitascope.ingress.app import create_app
from vitascope.ingress.door import IngressDeps
from vitascope.outbound import AddressRules, Outbound
from vitascope.publish.publisher import Publisher
from vitascope.publish.signing import UrlSigner
from vitascope.runtime.completeness import Completeness
from vitascope.runtime.ports import SystemClock
from vitascope.runtime.settings import DecodeSettings, DenoiseSettings, EncodeSettings, IngressSettings, S3Settings
from vitascope.runtime.stage import StageHandler
from vitascope.runtime.stage_loop import StageLoop
from vitascope.runtime.tenants import KeptTenants
from vitascope_operator.scheduling.dispatcher import Dispatcher

BODY = {"prompt": "nothing", "size": "64x64", "frames": 5, "fps": 8, "steps": 2}
STREAMS = ("KV_VITASCOPE_JOBS", "VITASCOPE_WORK", "VITASCOPE_EVENTS", "VITASCOPE_PROGRESS")
POOL = "default"


class NoDenoiser:
    """Reports its steps at once and hands over nothing."""

    def describe(self, _model: str) -> Engine:
        """An engine that nobody confuses with a real one."""
        return Engine(fingerprint="none", dtype="none", device="none", sampler="none")

    def run(self, request: VideoRequest, _references: Sequence[bytes], on_step: OnStep, _resume: bytes | None) -> bytes:
        """As many steps as asked for."""
        for step in range(1, request.num_inference_steps + 1):
            on_step(step, request.num_inference_steps, lambda: b"")
        return b"latents"

    def prove(self) -> None:
        """It needs no memory."""


class NoDecoder:
    """Grey frames, in the chunks of a causal VAE."""

    def stream(self, _model: str, _blob: bytes, _tile_px: int | None) -> Generator[NDArray[np.uint8], None, None]:
        """One frame, then four."""
        for frames in (1, 4):
            yield np.full((frames, 64, 64, 3), 128, np.uint8)

    def prove(self) -> None:
        """It needs no memory."""


class Counted:
    """A port whose coroutines are counted and timed."""

    def __init__(self, port: Any, name: str, spent: Counter[str], calls: Counter[str]) -> None:
        self._port, self._name, self._spent, self._calls = port, name, spent, calls

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._port, name)
        if not asyncio.iscoroutinefunction(attribute):
            return attribute

        async def timed(*args: Any, **options: Any) -> Any:
            began_s = time.perf_counter()
            try:
                return await attribute(*args, **options)
            finally:
                self._calls[f"{self._name}.{name}"] += 1
                self._spent[f"{self._name}.{name}"] += time.perf_counter() - began_s

        return timed


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=200)
    with tempfile.TemporaryDirectory() as folder:
        figures = asyncio.run(measure(Path(folder), parser.parse_args().jobs))
    print(f"{figures['jobs']} jobs in {figures['wall_s']:.1f} s: {figures['jobs_a_s']:.1f} jobs a second")
    for name, (calls, waited_ms) in figures["a_job"].items():
        print(f"  {name:<24} {calls:6.2f} calls, {waited_ms:7.2f} ms waiting, a job")
    print(json.dumps(figures))


async def measure(folder: Path, jobs: int) -> dict[str, Any]:
    """Queue all jobs, wait for the last, count."""
    spent: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    async with pipeline(folder, spent, calls) as (http, connection):
        await run_jobs(http, 3)
        spent.clear()
        calls.clear()
        before = await count_messages(connection)
        began_s, cpu_s = time.perf_counter(), time.process_time()
        await run_jobs(http, jobs)
        wall_s, cpu_s = time.perf_counter() - began_s, time.process_time() - cpu_s
        after = await count_messages(connection)
    return {
        "jobs": jobs,
        "wall_s": wall_s,
        "jobs_a_s": jobs / wall_s,
        "cpu_ms_a_job": 1000 * cpu_s / jobs,
        "messages_a_job": {name: (after[name] - before[name]) / jobs for name in STREAMS},
        "a_job": {name: (count / jobs, 1000 * spent[name] / jobs) for name, count in calls.most_common()},
    }


async def run_jobs(http: httpx.AsyncClient, count: int) -> None:
    """Submit, and wait until all have succeeded."""
    for _ in range(count):
        (await http.post("/v1/video-jobs", json=BODY)).raise_for_status()
    while True:
        states = (await http.get("/v1/queue")).json()["jobs"]
        if sum(states.get(state, 0) for state in ("queued", "running", "decoding", "encoding")) == 0:
            assert states.get("failed", 0) == 0, states
            return
        await asyncio.sleep(0.02)


async def count_messages(connection: Connection) -> dict[str, int]:
    """The last sequence of each stream: every message ever stored."""
    from vitascope.adapters.jetstream.api import call  # noqa: PLC0415 (a benchmark looks behind the port)

    return {name: (await call(connection, f"STREAM.INFO.{name}"))["state"]["last_seq"] for name in STREAMS}


@asynccontextmanager
async def pipeline(
    folder: Path, spent: Counter[str], calls: Counter[str]
) -> AsyncIterator[tuple[httpx.AsyncClient, Connection]]:
    """Every process's work, in this one."""
    async with AsyncExitStack() as stack:
        nats = await stack.enter_async_context(running_nats(folder))
        s3 = await stack.enter_async_context(running_s3(folder))
        connection = await stack.enter_async_context(Connection(nats.plain_url, user=nats.user, password=nats.password))
        client = await stack.enter_async_context(
            S3Client(s3.endpoint, access_key=s3.access_key, secret_key=s3.secret_key, bucket="vitascope")
        )
        await ensure(connection)
        await ensure_bucket(client, S3Settings().retention)
        ledger, bus, registry, store = (
            Counted(port, name, spent, calls)
            for name, port in (
                ("ledger", JetStreamLedger(connection)),
                ("bus", JetStreamBus(connection)),
                ("registry", JetStreamRegistry(connection)),
                ("store", S3ObjectStore(client)),
            )
        )
        yield await start_parts(stack, ledger, bus, registry, store), connection


async def start_parts(  # noqa: PLR0917 (the four ports)
    stack: AsyncExitStack, ledger: Any, bus: Any, registry: Any, store: Any
) -> httpx.AsyncClient:
    """Scheduler, publisher, stages and door."""
    clock = SystemClock()
    row = GroupRow(
        pool=POOL, group="g0", models=("tiny-wan",), state=GroupState.STARTING, holder="bench", seen=clock.now()
    )
    group = GroupHeartbeat(registry, clock, row)
    sampler, thread = (stack.enter_context(ThreadPoolExecutor(1)) for _ in range(2))
    ports = {"ledger": ledger, "bus": bus, "store": store, "clock": clock}
    handlers: list[tuple[StageHandler, str | None, int]] = [
        (
            DenoiseHandler(**ports, denoiser=NoDenoiser(), group=group, settings=DenoiseSettings(), sampler=sampler),
            "g0",
            2,
        ),
        (DecodeHandler(**ports, decoder=NoDecoder(), settings=DecodeSettings(), thread=thread), None, 1),
        (EncodeHandler(**ports, settings=EncodeSettings()), None, 2),
    ]
    dispatcher = Dispatcher(ledger, bus, registry, clock, store=store, holder="bench", lease_s=4.0, group_lease_s=15.0)
    works: list[Callable[[], Awaitable[None]]] = [dispatcher.run, Publisher(ledger, bus, store, clock).run]
    works += [
        StageLoop(handler, bus, ledger, clock=clock, pool=POOL, group=name, limit=limit).run
        for handler, name, limit in handlers
    ]
    for work in works:
        task = asyncio.ensure_future(work())
        stack.push_async_callback(end, task)
    await stack.enter_async_context(group.beating())
    group.ready()
    signer = UrlSigner(store, clock, 3600)
    completeness = Completeness(ledger, store)
    tenants = KeptTenants(MemoryBroker().tenants, store, clock)  # there are none
    deps = IngressDeps(
        settings=IngressSettings(),
        catalog=load_catalog(None),
        ledger=ledger,
        bus=bus,
        registry=registry,
        store=store,
        signer=signer,
        completeness=completeness,
        tenants=tenants,
        references=make_reader(store),
        deliveries=MemoryBroker().deliveries,
        addresses=Outbound(AddressRules()),
    )
    app = create_app(deps)
    await stack.enter_async_context(app.router.lifespan_context(app))
    transport = httpx.ASGITransport(app)
    return await stack.enter_async_context(
        httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=60)
    )


async def end(task: "asyncio.Future[None]") -> None:
    """Cancel and wait."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


if __name__ == "__main__":
    main()
