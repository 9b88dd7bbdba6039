"""The one-machine run: both servers, every process, until it is told to stop."""

import asyncio
import shutil
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from vitascope.local.folder import DataFolder, open_folder
from vitascope.local.keeper import ChildReport
from vitascope.local.pipeline import INGRESS, Pipeline, name_ports
from vitascope.local.ports import settle_ports
from vitascope.local.running import RunningUp, announce_run, withdraw_run
from vitascope.local.servers import Servers, start_servers
from vitascope.local.supervisor import Supervisor


@dataclass(frozen=True)
class UpOptions:
    """What `vitascope up` was asked for; port 0 takes a free one."""

    data: Path
    port: int
    groups: int = 1


@dataclass(frozen=True)
class UpAddresses:
    """Where a ready run can be reached."""

    url: str
    nats_url: str
    s3_endpoint: str
    logs: Path


async def run_up(
    options: UpOptions,
    *,
    on_ready: Callable[[UpAddresses], None],
    on_report: Callable[[ChildReport], None],
) -> None:
    """Start everything, call `on_ready` once a job would run, and return after SIGINT or SIGTERM when all has stopped.

    Raises:
        LocalRunError: it could not start, or a process could not be kept up.
    """
    told_to_stop = _watch_signals()
    with open_folder(options.data) as folder:
        withdraw_run(folder.path)
        async with Supervisor(folder, on_report=on_report) as supervisor:
            running = asyncio.create_task(_start(options, folder, supervisor, on_ready), name="run")
            stopping = asyncio.create_task(told_to_stop.wait(), name="wait for a signal")
            try:
                await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
                if running.done():
                    running.result()
            finally:
                withdraw_run(folder.path)
                running.cancel()
                stopping.cancel()
                await asyncio.gather(running, stopping, return_exceptions=True)


async def _start(
    options: UpOptions, folder: DataFolder, supervisor: Supervisor, on_ready: Callable[[UpAddresses], None]
) -> None:
    """Bring everything up, tell so, and then only watch that it stays up."""
    wanted = {INGRESS: options.port} if options.port else {}
    names = name_ports(options.groups)
    ports = await asyncio.to_thread(settle_ports, folder.run / "pipeline-ports.json", names, wanted)
    servers = await start_servers(folder, supervisor)
    scratch = await asyncio.to_thread(empty_scratch, folder)
    for children in Pipeline(servers, ports, scratch, options.groups).plan_children():
        await supervisor.start(*children)
    addresses = _addresses(folder, servers, ports[INGRESS])
    announce_run(folder.path, RunningUp.of_this_process(addresses.url))
    on_ready(addresses)
    await supervisor.wait_failed()


def empty_scratch(folder: DataFolder) -> Path:
    """The folder for files in the making, without what a killed process left in it."""
    scratch = folder.run / "scratch"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(mode=0o700)
    return scratch


def _addresses(folder: DataFolder, servers: Servers, port: int) -> UpAddresses:
    return UpAddresses(f"http://127.0.0.1:{port}", servers.nats_url, servers.s3_endpoint, folder.logs)


def _watch_signals() -> asyncio.Event:
    told, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, told.set)
    return told
