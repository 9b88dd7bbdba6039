"""How many operations a second the ledger and the bus do on one NATS server that syncs every message to disk.

    python bench/ledger.py [--seconds 3] [--json FILE]

Starts a server of its own in a temporary folder. Each operation is measured alone by one caller (its latency) and by
many at once (the throughput); the numbers are printed as text and, with --json, written as JSON.
"""

import argparse
import asyncio
import json
import logging
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import structlog

from vitascope.adapters.jetstream import Connection, JetStreamBus, JetStreamLedger, ensure
from vitascope.contracts import transitions
from vitascope.contracts.events import WorkItem
from vitascope.contracts.flow import Stage
from vitascope.contracts.ids import make_job_id
from vitascope.contracts.jobs import Admission, JobRecord, VideoRequest
from vitascope.contracts.subjects import work_subject
from vitascope.local import nats_server
from vitascope.local.folder import open_folder
from vitascope.local.nats_server import NatsServer
from vitascope.local.ports import settle_ports
from vitascope.local.supervisor import Supervisor
from vitascope.runtime.ports import Stamped

CALLERS = 32
MIN_FREE_BYTES = 1024**3
NOW = datetime(2026, 1, 1, tzinfo=UTC)
Operation = Callable[[], Awaitable[object]]


@dataclass(frozen=True)
class Measured:
    """One operation by a number of callers at once.

    Attributes:
        operation: what was done.
        callers: how many at once.
        per_s: operations a second, of all callers.
        median_ms, p99_ms: time of one operation.
    """

    operation: str
    callers: int
    per_s: float
    median_ms: float
    p99_ms: float


async def measure(operation: str, callers: int, seconds: float, make: Callable[[], Operation]) -> Measured:
    """Let each caller repeat its operation for a while."""
    times_s: list[float] = []
    end_s = time.perf_counter() + seconds

    async def call(run: Operation) -> None:
        while (began_s := time.perf_counter()) < end_s:
            await run()
            times_s.append(time.perf_counter() - began_s)

    began_s = time.perf_counter()
    await asyncio.gather(*(call(make()) for _ in range(callers)))
    took_s = time.perf_counter() - began_s
    ordered = sorted(times_s)
    p99_s = ordered[int(0.99 * (len(ordered) - 1))]
    return Measured(operation, callers, len(ordered) / took_s, 1000 * statistics.median(ordered), 1000 * p99_s)


def make_record() -> JobRecord:
    """A record of ordinary size."""
    request = VideoRequest(
        tenant="bench",
        model="tiny-wan",
        prompt="a red circle moving right on a white background " * 6,
        width=1280,
        height=720,
        num_frames=81,
        fps=Fraction(16),
        num_inference_steps=50,
        guidance_scale=5.0,
        seed=1,
    )
    admission = Admission(bucket="720p", pool="bench", group_size=4, estimated_gpu_s=600.0, price_units=1.0)
    return transitions.accept(make_job_id(NOW), request, admission, now=NOW)


async def measure_all(connection: Connection, seconds: float) -> list[Measured]:
    """Every operation, alone and by many."""
    ledger, bus = JetStreamLedger(connection), JetStreamBus(connection)
    known = (await ledger.create(make_record())).record.id

    def create() -> Operation:
        return lambda: ledger.create(make_record())

    def get() -> Operation:
        return lambda: ledger.get(known)

    def replace() -> Operation:
        stamped: Stamped | None = None

        async def run() -> None:
            nonlocal stamped
            if stamped is None:
                record = make_record()
                stamped = await ledger.replace(await ledger.create(record), transitions.start(record, "g0", NOW))
            changed = transitions.note_failure(stamped.record, 1, Stage.DENOISE, "bench")
            stamped = await ledger.replace(stamped, changed)

        return run

    async def publish(pool: str) -> None:
        event = WorkItem(job=make_job_id(NOW), tenant="bench", attempt=1, stage=Stage.DECODE).to_event(NOW)
        await bus.publish_work(work_subject(Stage.DECODE, pool, str(event.subject)), event)

    results = []
    for callers in (1, CALLERS):
        for name, make in (("create", create), ("get", get), ("replace", replace)):
            results.append(await measure(name, callers, seconds, make))
        results.append(await measure("publish", callers, seconds, lambda: lambda: publish("published")))
        results.append(await measure_consume(bus, callers, seconds, publish))
    return results


async def measure_consume(
    bus: JetStreamBus,
    callers: int,
    seconds: float,
    publish: Callable[[str], Awaitable[None]],
) -> Measured:
    """Deliveries, each acknowledged, from a queue that is filled beforehand."""
    pool = f"consumed-{callers}"
    await measure("fill", CALLERS, seconds, lambda: lambda: publish(pool))
    turn = asyncio.Lock()
    async with bus.consume(Stage.DECODE, pool, limit=callers) as deliveries:

        async def take() -> None:
            async with turn:  # one reader at a time; the acknowledgements overlap
                delivery = await anext(deliveries)
            await delivery.ack()

        return await measure("consume", callers, seconds / 4, lambda: take)


async def run(seconds: float) -> list[Measured]:
    """Start a server, measure, stop it."""
    with tempfile.TemporaryDirectory() as path, open_folder(Path(path), min_free_bytes=MIN_FREE_BYTES) as folder:
        server = NatsServer(folder, settle_ports(folder.run / "ports.json", nats_server.PORT_NAMES, {}))
        async with Supervisor(folder) as supervisor:
            await supervisor.start(await server.plan_child())
            user, password = folder.credentials.nats_user, folder.credentials.nats_password
            async with Connection(server.url, user=user, password=password) as connection:
                await ensure(connection)
                return await measure_all(connection, seconds)


def main() -> None:
    """Print the table; with --json write it as well."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=3.0, help="how long each operation is repeated")
    parser.add_argument("--json", type=Path, help="file to write the numbers to")
    arguments = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    results = asyncio.run(run(arguments.seconds))
    print(f"{'operation':<10}{'callers':>8}{'per second':>12}{'median ms':>11}{'p99 ms':>9}")
    for row in results:
        print(f"{row.operation:<10}{row.callers:>8}{row.per_s:>12,.0f}{row.median_ms:>11.2f}{row.p99_ms:>9.2f}")
    if arguments.json:
        machine = {"cpus": os.cpu_count(), "python": sys.version.split()[0], "seconds": arguments.seconds}
        report = {"machine": machine, "results": [asdict(row) for row in results]}
        arguments.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
