"""The pipeline under test: real servers and real processes, each behind relays of its own, restarted when they end.

What `vitascope up` starts, with the addresses of the relays in place of the servers', and the start-up hook of
`tests/faults/startup` in every Python process.
"""

import asyncio
import json
import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil

from faults.receiver import Receiver, receiving
from faults.relay import LOOPBACK, Relay
from servers import without_left_sockets
from vitascope.local.child import ChildSpec
from vitascope.local.folder import DataFolder, open_folder
from vitascope.local.keeper import ChildReport, ChildState, Restarts
from vitascope.local.nats_server import PORT_NAMES as NATS_PORTS
from vitascope.local.nats_server import NatsServer
from vitascope.local.pipeline import INGRESS, Pipeline, name_ports
from vitascope.local.ports import settle_ports
from vitascope.local.s3_server import PORT_NAMES as S3_PORTS
from vitascope.local.s3_server import S3Server
from vitascope.local.servers import Servers
from vitascope.local.supervisor import Supervisor

GROUPS = 2
STARTUP = Path(__file__).parent / "startup"
RESTARTS = Restarts(max_failures=10**9, first_delay_s=1.0, max_delay_s=1.0)
"""As a cluster does it: always again. The second in between is what a wiped store needs."""
READY_DEADLINE_S = 120.0
NATS_DISK_BYTES = 64 * 1024**2
S3_DISK_BYTES = 1400 * 1024**2
"""The S3 server stops taking objects when less than 1 GiB is free."""
MIN_FREE_BYTES = 64 * 1024**2

SHORT_TIMES = {
    "vitascope.adapters.limits:ACK_WAIT_S": 6,
    "vitascope.runtime.stage_run:BEAT_S": 1.5,
    "vitascope.runtime.watchdog:LOOK_MAX_S": 3,
    "vitascope.contracts.deadlines:STALL_FLOOR_S": 6,
    "vitascope.contracts.deadlines:FIRST_FLOOR_S": 10,
    "vitascope.publish.janitor:JANITOR_EVERY_S": 15,
    "vitascope.publish.janitor:LOOK_S": 3,
    "vitascope.publish.janitor:LEASE_S": 12,
    "vitascope.publish.janitor:RENEW_S": 3,
    "vitascope.publish.janitor:RETRY_S": 5,
    "vitascope.publish.janitor:WORK_AGE": 10,
    "vitascope.publish.epoch:GRACE": 20,
    "vitascope.publish.epoch:SKEW": 5,
    "vitascope.publish.orphans:UPLOAD_AGE": 20,
    "vitascope_operator.scheduling.view:REPAIR_AFTER_S": 4,
    "vitascope.contracts.pools:HEARTBEAT_S": 1,
    "vitascope.contracts.pools:LEASE_S": 6,
}
"""Shorter than the product's own, in about the same proportions, so that a fault costs seconds."""
GROUP_LEASE_S = 5.0
CHECKPOINT_EVERY = 2


@dataclass(frozen=True)
class PlantOptions:
    """How the pipeline is set up.

    Attributes:
        engine: `quick`, the model of `fault_engine`, or `real`, the demo model.
        step_s: a step takes at least so long.
        chunk_s: a chunk takes at least so long in decode and in encode.
        mutation: a bug from `fault_mutations`, or none.
        small_disks: give NATS and S3 filesystems of their own that can be filled.
    """

    engine: str = "quick"
    step_s: float = 0.1
    chunk_s: float = 0.1
    mutation: str = ""
    small_disks: bool = False
    constants: dict[str, float] = field(default_factory=lambda: dict(SHORT_TIMES))


class Plant:
    """The running pipeline. `running_plant` makes one."""

    def __init__(
        self, folder: DataFolder, ports: dict[str, int], options: PlantOptions, *, receiver: Receiver, seed: int
    ) -> None:
        self.folder, self.ports, self.options, self.receiver = folder, ports, options, receiver
        self.place = folder.path / "faults"
        self.relays: dict[tuple[str, str], Relay] = {}
        self.reports: list[ChildReport] = []
        self._pids: dict[str, int] = {}
        self._ready: dict[str, int] = {}
        self._news = asyncio.Event()
        self._seed = seed
        for name in ("orders", "fired", "clock"):
            (self.place / name).mkdir(parents=True, exist_ok=True)
        self.mutate(options.mutation)

    @property
    def url(self) -> str:
        """The HTTP door."""
        return f"http://{LOOPBACK}:{self.ports[INGRESS]}"

    @property
    def nats_url(self) -> str:
        """NATS itself, not through a relay, with credentials."""
        secrets = self.folder.credentials
        return f"nats://{secrets.nats_user}:{secrets.nats_password}@{LOOPBACK}:{self.ports['nats']}"

    @property
    def s3_address(self) -> str:
        """S3 itself, host and port."""
        return f"{LOOPBACK}:{self.ports['s3']}"

    @property
    def parts(self) -> list[str]:
        """The names of the pipeline's own processes."""
        return list(dict.fromkeys(part for part, _ in self.relays))

    def pid(self, name: str) -> int:
        """The process of that name; the newest."""
        return self._pids[name]

    def send(self, name: str, number: signal.Signals) -> int:
        """Send a signal to a process; its id."""
        pid = self.pid(name)
        psutil.Process(pid).send_signal(number)
        return pid

    async def wait_changed(self, name: str, pid: int) -> None:
        """Wait until another process of that name is ready."""
        async with asyncio.timeout(READY_DEADLINE_S):
            while self._ready.get(name, pid) == pid:
                self._news.clear()
                await self._news.wait()

    async def wait_all_ready(self) -> None:
        """Wait until every process is ready."""
        async with asyncio.timeout(READY_DEADLINE_S):
            while self._ready != self._pids:
                self._news.clear()
                await self._news.wait()

    def list_processes(self) -> dict[str, list[int]]:
        """All processes that run with our folder's mark, by name."""
        found: dict[str, list[int]] = {}
        for process in psutil.process_iter():
            try:
                mark = process.environ().get("VITASCOPE_RUN", "")
                if mark.startswith(f"{self.folder.folder_id}:") and process.status() != psutil.STATUS_ZOMBIE:
                    found.setdefault(mark.rsplit(":", 1)[1], []).append(process.pid)
            except psutil.Error:
                continue
        return found

    def order(self, stage: str, at: int, how: str) -> str:
        """Have the next model that comes to step, chunk or frame `at` of a stage misbehave; the order's name."""
        name = f"{stage}-{len(list(self.place.glob('*/*.json'))):05d}"
        draft = self.place / f"{name}.new"
        draft.write_text(json.dumps({"at": at, "how": how}))
        draft.rename(self.place / "orders" / f"{name}.json")
        return name

    def withdraw(self, order: str) -> bool:
        """Take an order back; False if it was carried out."""
        try:
            (self.place / "orders" / f"{order}.json").unlink()
        except FileNotFoundError:
            return False
        return True

    def mutate(self, name: str) -> None:
        """Give processes that start from now on a bug of `fault_mutations`; an empty name gives none."""
        (self.place / "mutation").write_text(name)

    def shift_clock(self, name: str, seconds: float) -> None:
        """Make the clock of a process wrong by so much, now and after restarts; 0 sets it right."""
        (self.place / "clock" / name).write_text(str(seconds))

    def read_journal(self) -> list[dict[str, Any]]:
        """What the models did, in the order in which they did it."""
        path = self.place / "journal.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def wipe_nats(self) -> None:
        """Remove everything that NATS stored; to be called right after its end."""
        for path in self.folder.nats.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def note(self, report: ChildReport) -> None:
        """The supervisor tells what became of a process."""
        self.reports.append(report)
        if report.pid is not None and report.state is ChildState.STARTED:
            self._pids[report.child] = report.pid
        if report.pid is not None and report.state is ChildState.READY:
            self._ready[report.child] = report.pid
        self._news.set()

    async def route(self, spec: ChildSpec) -> ChildSpec:
        """A process of the pipeline with relays of its own to NATS and S3, and with the hook."""
        ends = {"nats": self.ports["nats"], "s3": self.ports["s3"]}
        for server, port in ends.items():
            relay = self.relays[spec.name, server] = Relay(f"{spec.name}-{server}", port, self._seed)
            await relay.start()
        nats, s3 = self.relays[spec.name, "nats"], self.relays[spec.name, "s3"]
        options = self.options
        return replace(
            spec,
            env={
                **spec.env,
                "VITASCOPE_NATS__URL": f"nats://{LOOPBACK}:{nats.port}",
                "VITASCOPE_S3__ENDPOINT": f"http://{LOOPBACK}:{s3.port}",
                "VITASCOPE_S3__PUBLIC_ENDPOINT": f"http://{self.s3_address}",
                "VITASCOPE_SCHEDULER__GROUP_LEASE_S": str(GROUP_LEASE_S),
                "VITASCOPE_SCHEDULER__LEASE_S": "2",
                "VITASCOPE_DENOISE__CHECKPOINT_EVERY": str(CHECKPOINT_EVERY),
                "VITASCOPE_DENOISE__MIN_STEP_S": str(options.step_s),
                "VITASCOPE_ENCODE__PRESET": "ultrafast",
                "VITASCOPE_WEBHOOKS__ALLOW_NETWORKS": json.dumps([f"{LOOPBACK}/32"]),
                "OMP_NUM_THREADS": "1",
                "PYTHONPATH": os.pathsep.join(filter(None, (str(STARTUP), os.environ.get("PYTHONPATH")))),
                "FAULTS_FOLDER": str(self.place),
                "FAULTS_ENGINE": options.engine,
                "FAULTS_DECODE_CHUNK_S": str(options.chunk_s),
                "FAULTS_ENCODE_CHUNK_S": str(options.chunk_s),
                "FAULTS_SET": ",".join(f"{place}={value}" for place, value in options.constants.items()),
            },
        )


@asynccontextmanager
async def running_plant(path: Path, options: PlantOptions | None = None, seed: int = 0) -> AsyncIterator[Plant]:
    """Start everything; stopped at the end. Must be entered in the main thread, to which the processes are tied."""
    chosen = options or PlantOptions()
    async with AsyncExitStack() as stack:
        if chosen.small_disks:
            stack.enter_context(small_disk(path / "nats", NATS_DISK_BYTES))
            stack.enter_context(small_disk(path / "s3", S3_DISK_BYTES))
        folder = stack.enter_context(open_folder(path, min_free_bytes=MIN_FREE_BYTES))
        stack.enter_context(without_left_sockets(folder))
        servers = settle_ports(folder.run / "ports.json", (*NATS_PORTS, *S3_PORTS), {})
        own = settle_ports(folder.run / "pipeline-ports.json", name_ports(GROUPS), {})
        receiver = await stack.enter_async_context(receiving())
        plant = Plant(folder, {**servers, **own}, chosen, receiver=receiver, seed=seed)
        stack.push_async_callback(_stop_relays, plant)
        supervisor = await stack.enter_async_context(Supervisor(folder, restarts=RESTARTS, on_report=plant.note))
        nats, s3 = NatsServer(folder, plant.ports), S3Server(folder, plant.ports)
        await supervisor.start(await nats.plan_child(), await s3.plan_child())
        scratch = folder.run / "scratch"
        scratch.mkdir(exist_ok=True)
        known = Servers(nats.url, s3.endpoint, folder.credentials)
        for group in Pipeline(known, plant.ports, scratch, GROUPS).plan_children():
            await supervisor.start(*[await plant.route(spec) for spec in group])
        yield plant


async def _stop_relays(plant: Plant) -> None:
    for relay in plant.relays.values():
        await relay.stop()


@contextmanager
def small_disk(path: Path, size_bytes: int) -> Iterator[None]:
    """A filesystem in memory at a folder.

    Raises:
        PermissionError: only somebody who may mount a filesystem can do this.
    """
    path.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size_bytes},mode=0700", "tmpfs", str(path)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode:
        raise PermissionError(f"cannot mount {path}: {mounted.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)
