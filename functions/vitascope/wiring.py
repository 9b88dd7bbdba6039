"""Builds each process: the only module that names adapters.

Libraries of one role are imported inside its function, so that an image holds no more than its process needs.
"""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import structlog
from pydantic import ValidationError

from vitascope.adapters.jetstream import Connection, JetStreamBus, JetStreamLedger, JetStreamRegistry
from vitascope.adapters.s3 import S3Client, S3ObjectStore
from vitascope.catalog import Catalog, CatalogInvalid, load_catalog
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.flow import Stage
from vitascope.contracts.models import ModelEntry
from vitascope.contracts.objects import PROBE_KEY
from vitascope.contracts.pools import GroupRow, GroupState, presence_pool
from vitascope.runtime.ports import SystemClock
from vitascope.runtime.presence import Presence
from vitascope.runtime.settings import (
    DecodeSettings,
    DenoiseSettings,
    EncodeSettings,
    S3Settings,
    Settings,
    name_settings,
)
from vitascope.runtime.stage import StageHandler
from vitascope.runtime.telemetry import configure_logs, serving_metrics

log = structlog.get_logger(__name__)

Role = Callable[[Settings], Coroutine[None, None, int]]

BACKLOG = 2048
"""Connections that wait to be accepted."""
DENOISE_LIMIT = 2
"""One job in the sampler, and the one before it, whose latents are still going out."""


@dataclass(frozen=True)
class Ports:
    """The adapters of one process."""

    connection: Connection
    s3: S3Client
    bus: JetStreamBus
    ledger: JetStreamLedger
    registry: JetStreamRegistry
    store: S3ObjectStore
    clock: SystemClock


def run_role(role: str, roles: Mapping[str, Role] | None = None) -> int:
    """Run one process to its end; its exit status. What keeps it from starting is said in one line.

    The status is `os.EX_CONFIG` if starting again would fail again.
    """
    try:
        settings = Settings()
        configure_logs(settings.log, role)
        return asyncio.run((roles or ROLES)[role](settings))
    except ValidationError as error:
        return _refuse(role, name_settings(error), os.EX_CONFIG)
    except (CatalogInvalid, ValueError) as error:
        return _refuse(role, str(error), os.EX_CONFIG)
    except (VitascopeError, OSError) as error:
        return _refuse(role, str(error), 1)


@asynccontextmanager
async def open_ports(settings: Settings, role: str) -> AsyncIterator[Ports]:
    """Connect to the bus and the store; closed in reverse at the end.

    Raises:
        VitascopeError: one of them cannot be reached.
    """
    nats, password = settings.nats, settings.nats.password
    connection = Connection(
        nats.url,
        name=f"vitascope-{role}",
        user=nats.user,
        password=password.get_secret_value() if password else None,
        connect_timeout_s=nats.connect_timeout_s,
    )
    async with connection, make_s3_client(settings.s3, settings.s3.bucket) as s3:
        bus, ledger, registry = JetStreamBus(connection), JetStreamLedger(connection), JetStreamRegistry(connection)
        store = S3ObjectStore(s3)
        yield Ports(connection, s3, bus, ledger, registry, store, SystemClock())


@asynccontextmanager
async def open_ready_ports(settings: Settings, role: str) -> AsyncIterator[Ports]:
    """As `open_ports`, once the store has answered: a process that could not work says so at its start."""
    async with open_ports(settings, role) as ports:
        await ports.store.size(PROBE_KEY)
        yield ports


def make_s3_client(settings: S3Settings, bucket: str) -> S3Client:
    """A client of one bucket; nothing is connected yet."""
    return S3Client(
        settings.endpoint,
        access_key=settings.access_key,
        secret_key=settings.secret_key.get_secret_value(),
        bucket=bucket,
        region=settings.region,
        public_endpoint=settings.public_endpoint,
        connect_timeout_s=settings.connect_timeout_s,
    )


def name_holder() -> str:
    """Host and process, as rows and leases name who holds them."""
    return f"{socket.gethostname()}:{os.getpid()}"


async def run_ingress(settings: Settings) -> int:
    """The HTTP door."""
    from vitascope.ingress.app import create_app  # noqa: PLC0415 (see the module)
    from vitascope.ingress.door import IngressDeps  # noqa: PLC0415
    from vitascope.ingress.serve import serve_door  # noqa: PLC0415
    from vitascope.publish.signing import UrlSigner  # noqa: PLC0415
    from vitascope.runtime.completeness import Completeness  # noqa: PLC0415

    own = settings.ingress
    async with open_ready_ports(settings, "ingress") as ports:
        deps = IngressDeps(
            settings=own,
            catalog=load_catalog(settings.catalog),
            ledger=ports.ledger,
            bus=ports.bus,
            registry=ports.registry,
            store=ports.store,
            signer=UrlSigner(ports.store, ports.clock, own.signed_url_s),
            completeness=Completeness(ports.ledger, ports.store),
            clock=ports.clock,
            retention=settings.s3.retention,
        )
        with socket.create_server((own.host, own.port), backlog=BACKLOG) as listener:
            await serve_door(create_app(deps), listener, watch_signals())
    return 0


async def run_publish(settings: Settings) -> int:
    """Public events, copies of records, and the janitor."""
    from vitascope.publish.janitor import Janitor  # noqa: PLC0415 (see the module)
    from vitascope.publish.publisher import Publisher, publish_and_clean  # noqa: PLC0415

    async with serving_metrics(settings.metrics), open_ready_ports(settings, "publish") as ports:
        keep = settings.s3.retention
        janitor = Janitor(
            ports.ledger,
            ports.bus,
            ports.registry,
            ports.store,
            clock=ports.clock,
            holder=name_holder(),
            retention=keep,
        )
        publisher = Publisher(ports.ledger, ports.bus, ports.store, ports.clock)
        await run_until_signal(publish_and_clean(publisher, janitor))
    return 0


async def run_denoise(settings: Settings) -> int:
    """One denoise group."""
    from vitascope.denoise.group import GroupHeartbeat  # noqa: PLC0415 (see the module)
    from vitascope.denoise.handler import DenoiseHandler  # noqa: PLC0415
    from vitascope.denoise.modular import ModularDenoiser  # noqa: PLC0415
    from vitascope.engine.denoise_model import DenoiseModel  # noqa: PLC0415
    from vitascope.engine.device import choose_device, limit_threads, parse_dtype  # noqa: PLC0415

    own = settings.denoise
    entries = choose_models(load_catalog(settings.catalog), own.pool, own.models)
    models: dict[str, DenoiseModel] = {}
    async with open_ready_ports(settings, "denoise") as ports:
        row = GroupRow(
            pool=own.pool,
            group=own.group,
            models=tuple(entry.name for entry in entries),
            state=GroupState.STARTING,
            holder=name_holder(),
            seen=ports.clock.now(),
        )
        group, sampler = GroupHeartbeat(ports.registry, ports.clock, row), ThreadPoolExecutor(1, "sampler")

        def load(folders: dict[str, Path]) -> None:
            limit_threads(own.threads)
            device = choose_device(own.device)
            for entry in entries:
                folder, dtype = folders[entry.name], parse_dtype(entry.dtype)
                models[entry.name] = DenoiseModel.load(folder, dtype=dtype, device=device)

        async def make_ready() -> None:
            folders = await fetch_models(settings, entries)
            await load_models(sampler, load, folders)
            group.ready()

        handler = DenoiseHandler(
            ledger=ports.ledger,
            bus=ports.bus,
            store=ports.store,
            clock=ports.clock,
            denoiser=ModularDenoiser(models),
            group=group,
            settings=own,
            sampler=sampler,
        )
        async with group.beating():
            return await serve_stage(ports, handler, own, make_ready, group=own.group, limit=DENOISE_LIMIT)


async def run_decode(settings: Settings) -> int:
    """One decode process."""
    from vitascope.decode.handler import DecodeHandler  # noqa: PLC0415 (see the module)
    from vitascope.decode.modular import ModularDecoder  # noqa: PLC0415
    from vitascope.engine.decode_model import DecodeModel  # noqa: PLC0415
    from vitascope.engine.device import choose_device, limit_threads, parse_dtype  # noqa: PLC0415

    own = settings.decode
    entries = choose_models(load_catalog(settings.catalog), own.pool, own.models)
    models: dict[str, DecodeModel] = {}
    async with open_ready_ports(settings, "decode") as ports:
        presence, thread = make_presence(ports, Stage.DECODE, own.pool), ThreadPoolExecutor(1, "decoder")

        def load(folders: dict[str, Path]) -> None:
            limit_threads(own.threads)
            device = choose_device(own.device)
            for entry in entries:
                folder, dtype = folders[entry.name], parse_dtype(entry.dtype)
                models[entry.name] = DecodeModel.load(folder, dtype=dtype, device=device)

        async def make_ready() -> None:
            folders = await fetch_models(settings, entries)
            await load_models(thread, load, folders)
            presence.change(state=GroupState.IDLE)

        handler = DecodeHandler(
            ledger=ports.ledger,
            bus=ports.bus,
            store=ports.store,
            clock=ports.clock,
            decoder=ModularDecoder(models),
            settings=own,
            thread=thread,
        )
        async with presence.beating():
            return await serve_stage(ports, handler, own, make_ready)


async def run_encode(settings: Settings) -> int:
    """One encode process."""
    from vitascope.encode.handler import EncodeHandler  # noqa: PLC0415 (see the module)
    from vitascope.encode.scratch import own_scratch  # noqa: PLC0415

    async with open_ready_ports(settings, "encode") as ports:
        presence = make_presence(ports, Stage.ENCODE, settings.encode.pool)

        async def make_ready() -> None:
            presence.change(state=GroupState.IDLE)

        with own_scratch(settings.encode.scratch) as scratch:
            own = settings.encode.model_copy(update={"scratch": scratch})
            handler = EncodeHandler(
                ledger=ports.ledger, bus=ports.bus, store=ports.store, clock=ports.clock, settings=own
            )
            async with presence.beating():
                return await serve_stage(ports, handler, own, make_ready, limit=own.concurrency)


async def serve_stage(
    ports: Ports,
    handler: StageHandler,
    own: DenoiseSettings | DecodeSettings | EncodeSettings,
    load: Callable[[], Awaitable[None]],
    *,
    group: str | None = None,
    limit: int = 1,
) -> int:
    """One stage behind its KServe face, until a signal; the exit status."""
    from vitascope.runtime.serving import StageService  # noqa: PLC0415 (see the module)
    from vitascope.runtime.stage_loop import StageLoop  # noqa: PLC0415 (as above)

    loop = StageLoop(handler, ports.bus, ports.ledger, clock=ports.clock, pool=own.pool, group=group, limit=limit)
    service = StageService(
        loop, ports.bus, ports.ledger, clock=ports.clock, name=handler.stage, load=load, grace_s=own.grace_s
    )
    return await service.serve(own.host, own.port)


ROLES: dict[str, Role] = {
    "ingress": run_ingress,
    "denoise": run_denoise,
    "decode": run_decode,
    "encode": run_encode,
    "publish": run_publish,
}


def choose_models(catalog: Catalog, pool: str, names: tuple[str, ...]) -> tuple[ModelEntry, ...]:
    """The catalog's models that a process serves: those named, else all of its pool.

    Raises:
        ValueError: a name is not in the catalog, or the pool has no models.
    """
    unknown = [name for name in names if catalog.get(name) is None]
    if unknown:
        raise ValueError(f"no model {', '.join(unknown)} in the catalog, which has {', '.join(catalog.names)}")
    chosen = tuple(entry for entry in catalog.entries if entry.name in names) if names else catalog.of_pool(pool)
    if not chosen:
        raise ValueError(f"the catalog has no model for the pool {pool}")
    return chosen


async def fetch_models(settings: Settings, entries: tuple[ModelEntry, ...]) -> dict[str, Path]:
    """The folder of each model by name; fetched into the cache if it lies elsewhere.

    Raises:
        VitascopeError: `model_folder_invalid`, there is no model at the source.
    """
    from vitascope.engine.errors import EngineError  # noqa: PLC0415 (needs the engine's libraries)
    from vitascope.model_source import fetch_model  # noqa: PLC0415 (as above)

    def open_bucket(bucket: str) -> S3ObjectStore:
        return S3ObjectStore(make_s3_client(settings.s3, bucket))

    try:
        return {entry.name: await fetch_model(entry.source, settings.cache, open_bucket) for entry in entries}
    except EngineError as error:
        raise VitascopeError(FailureCode.MODEL_FOLDER_INVALID, str(error)) from error


async def load_models(thread: Executor, load: Callable[[dict[str, Path]], None], folders: dict[str, Path]) -> None:
    """Load in the thread that will compute.

    Raises:
        VitascopeError: `model_folder_invalid`; the process should not be started again before that is mended.
    """
    from vitascope.engine.errors import EngineError  # noqa: PLC0415 (needs the engine's libraries)

    try:
        await asyncio.get_running_loop().run_in_executor(thread, load, folders)
    except (EngineError, ValueError) as error:
        raise VitascopeError(FailureCode.MODEL_FOLDER_INVALID, str(error)) from error


def make_presence(ports: Ports, stage: Stage, pool: str) -> Presence:
    """The row by which readiness sees that a decode or encode process is there."""
    row = GroupRow(
        pool=presence_pool(stage, pool),
        group=f"p{os.getpid()}",
        models=(),
        state=GroupState.STARTING,
        holder=name_holder(),
        seen=ports.clock.now(),
    )
    return Presence(ports.registry, ports.clock, row)


async def run_until_signal(work: Awaitable[None]) -> None:
    """Run until SIGINT or SIGTERM, or until the work ends or fails by itself."""
    stop = watch_signals()
    working, stopping = asyncio.ensure_future(work), asyncio.create_task(stop.wait(), name="wait for a signal")
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
    finally:
        for task in (working, stopping):
            task.cancel()
        await asyncio.gather(working, stopping, return_exceptions=True)


def watch_signals() -> asyncio.Event:
    """An event that SIGINT or SIGTERM sets."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    return stop


def _refuse(role: str, why: str, status: int) -> int:
    print(f"{role}: cannot start: {why}", file=sys.stderr)  # noqa: T201 (for who reads no logs)
    return status
