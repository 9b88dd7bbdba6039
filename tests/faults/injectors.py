"""The faults: each hits a target, lasts for a while, and is undone when its function ends."""

import asyncio
import json
import os
import random
import signal
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil

from faults.evidence import Span
from faults.plant import GROUP_LEASE_S, Plant
from faults.relay import Mode
from faults.witness import Seen, Witness
from faults.workload import Clients, References

SERVERS = ("nats", "s3")
STAGES = ("denoise", "decode", "encode")
BACK_S = 90.0
"""A process that was ended is ready again within this time, on a machine with much to do."""
PAUSE_S = GROUP_LEASE_S + 3.0


@dataclass
class Scene:
    """Where faults are played, and what was played."""

    plant: Plant
    witness: Witness
    clients: Clients
    references: References
    rng: random.Random = field(default_factory=lambda: random.Random(0))
    spans: list[Span] = field(default_factory=list)
    length: float = 1.0

    async def play(self, fault: "Fault", target: str) -> Span:
        """Play one fault to its end."""
        began = time.monotonic()
        try:
            await fault.act(self, target)
        finally:
            span = Span(fault.name, target, began, time.monotonic())
            self.spans.append(span)
        return span

    async def hold(self, low_s: float, high_s: float) -> None:
        """Let the fault last, the least time if `length` is 0."""
        await asyncio.sleep(self.rng.uniform(low_s, low_s + self.length * (high_s - low_s)))


Act = Callable[[Scene, str], Awaitable[None]]
Targets = Callable[[Plant], Sequence[str]]


@dataclass(frozen=True)
class Fault:
    """A kind of fault: its name, whom it can hit, what it does."""

    name: str
    targets: Targets
    act: Act


# ---- processes ------------------------------------------------------------------------------------------------------
async def kill(scene: Scene, target: str) -> None:
    """SIGKILL, and wait until another process of that name is ready."""
    pid = scene.plant.send(target, signal.SIGKILL)
    await scene.plant.wait_changed(target, pid)


async def terminate(scene: Scene, target: str) -> None:
    """SIGTERM while it is busy: it drains, ends, and comes back."""
    pid = scene.plant.send(target, signal.SIGTERM)
    await scene.plant.wait_changed(target, pid)


async def roll(scene: Scene, target: str) -> None:
    """SIGTERM to every stage server, one after the other, as a new release is rolled out."""
    assert target == "stages", "the others are few and quick"
    for part in ("denoise", "denoise1", "decode", "encode"):
        await terminate(scene, part)


async def preempt(scene: Scene, _target: str) -> None:
    """Every job that is being denoised is preempted, twice."""
    for _ in range(2):
        records = scene.witness.seen.newest_records()
        running = [job for job, record in records.items() if record["run"]["state"] == "running"]
        for job in running:
            with suppress(httpx.HTTPError):  # it may have gone on meanwhile, or the door may be closed
                await scene.clients.http.post(f"/v1/video-jobs/{job}/preempt")
        await scene.hold(0.5, 2)


async def pause(scene: Scene, target: str) -> None:
    """SIGSTOP for longer than the lease, then SIGCONT."""
    plant = scene.plant
    pid = plant.send(target, signal.SIGSTOP)
    try:
        await asyncio.sleep(PAUSE_S)
    finally:
        with suppress(psutil.NoSuchProcess, ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


async def wrong_clock(scene: Scene, target: str) -> None:
    """The clock of one process jumps by up to an hour, in either direction, and later back."""
    scene.plant.shift_clock(target, scene.rng.choice((-1, 1)) * scene.rng.uniform(30, 600))
    try:
        await scene.hold(3, 6)
    finally:
        scene.plant.shift_clock(target, 0)


# ---- servers --------------------------------------------------------------------------------------------------------
async def wipe(scene: Scene, target: str) -> None:
    """NATS is killed and its store is gone: the ledger has to be made anew from the copies in S3."""
    assert target == "nats", "S3 holds what nothing else holds"
    pid = scene.plant.send("nats", signal.SIGKILL)
    await asyncio.to_thread(psutil.wait_procs, [psutil.Process(pid)] if psutil.pid_exists(pid) else [], 5)
    scene.plant.wipe_nats()
    await scene.plant.wait_changed("nats", pid)
    await wait_for_streams(scene)


async def wait_for_streams(scene: Scene) -> None:
    """Give the pipeline time to make its streams again, by itself."""
    async with asyncio.timeout(BACK_S):
        while True:
            with suppress(Exception):  # whatever the server says while it has no streams
                if "config" in await scene.witness.ask("STREAM.INFO.KV_VITASCOPE_JOBS"):
                    return
            await asyncio.sleep(0.2)


async def fill_disk(scene: Scene, target: str) -> None:
    """The disk of a server has no byte left for a while. The server may have to be started again after that."""
    folder = scene.plant.folder.nats if target == "nats" else scene.plant.folder.s3
    with filled(folder):
        await scene.hold(3, 8)


@contextmanager
def filled(folder: Path) -> Iterator[None]:
    """Every byte taken, then given back."""
    path = folder / "filling"
    try:
        with path.open("wb") as file:
            for piece_bytes in (16 * 1024**2, 1024**2, 4096):
                with suppress(OSError):
                    while True:
                        os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, piece_bytes)
        yield
    finally:
        path.unlink(missing_ok=True)


# ---- networks -------------------------------------------------------------------------------------------------------
@asynccontextmanager
async def changed_network(
    plant: Plant, server: str, part: str, mode: Mode, delay_s: float = 0.0
) -> AsyncIterator[None]:
    """All connections of a process (or of `all`) to a server are in a mode."""
    relays = [relay for (owner, to), relay in plant.relays.items() if to == server and part in {owner, "all"}]
    for relay in relays:
        relay.become(mode, delay_s)
    try:
        yield
    finally:
        for relay in relays:
            relay.become(Mode.PASS)


def _network(server: str, mode: Mode, low_s: float, high_s: float, delay_s: float = 0.0) -> Act:
    async def act(scene: Scene, target: str) -> None:
        async with changed_network(scene.plant, server, target, mode, delay_s):
            await scene.hold(low_s, high_s)

    return act


# ---- models ---------------------------------------------------------------------------------------------------------
def _model(how: str) -> Act:
    async def act(scene: Scene, target: str) -> None:
        """Whoever comes to that step or chunk next."""
        order = scene.plant.order(target, scene.rng.randint(1, 3), how)
        deadline = time.monotonic() + 15
        while time.monotonic() < deadline:
            await asyncio.sleep(0.2)
            if (scene.plant.place / "fired" / f"{order}.json").exists():
                return
        scene.plant.withdraw(order)

    return act


# ---- events by hand -------------------------------------------------------------------------------------------------
async def duplicate_event(scene: Scene, _target: str) -> None:
    """The newest stage events once more: exact copies, and copies that the server cannot know as such."""
    for seen in scene.witness.seen.work[-3:]:
        await _publish(scene, seen)
        await _publish(scene, seen, {"Nats-Msg-Id": uuid.uuid4().hex})


async def stale_event(scene: Scene, _target: str) -> None:
    """Events of stages, jobs and attempts that are over."""
    past = scene.witness.seen.work[:-3]
    for seen in scene.rng.sample(past, min(3, len(past))):
        await _publish(scene, seen, {"Nats-Msg-Id": uuid.uuid4().hex})


async def early_event(scene: Scene, _target: str) -> None:
    """The events of later stages before their time, for jobs that are not there yet."""
    for seen in scene.witness.seen.work[-3:]:
        job = seen.subject.rpartition(".")[2]
        told = seen.json()
        for stage in ("encode", "decode"):
            body = json.dumps({**told, "stage": stage}).encode()
            subject = f"vitascope.work.{stage}.default.{job}"
            headers = {**seen.headers, "Nats-Msg-Id": uuid.uuid4().hex, "ce-id": f"{job}:{stage}:{told['attempt']}"}
            await scene.witness.client.publish(subject, body, headers=headers)
    await scene.witness.client.flush()


async def nonsense_event(scene: Scene, target: str) -> None:
    """A message that is no event at all."""
    group = ".g0" if target == "denoise" else ""
    await scene.witness.client.publish(f"vitascope.work.{target}.default{group}.vj_00000000000000000000000000", b"\xff")
    await scene.witness.client.flush()


async def _publish(scene: Scene, seen: Seen, headers: dict[str, str] | None = None) -> None:
    await scene.witness.client.publish(seen.subject, seen.data, headers={**seen.headers, **(headers or {})})
    await scene.witness.client.flush()


# ---- the whole list -------------------------------------------------------------------------------------------------
def _parts(plant: Plant) -> Sequence[str]:
    return plant.parts


def _everybody(plant: Plant) -> Sequence[str]:
    return (*plant.parts, *SERVERS)


def _only(*names: str) -> Targets:
    return lambda _plant: names


def _disks(plant: Plant) -> Sequence[str]:
    return SERVERS if plant.options.small_disks else ()


FAULTS: tuple[Fault, ...] = (
    Fault("kill", _everybody, kill),
    Fault("terminate", _everybody, terminate),
    Fault("rolling restart", _only("stages"), roll),
    Fault("preempt", _only("all"), preempt),
    Fault("pause", _everybody, pause),
    Fault("clock", _parts, wrong_clock),
    Fault("nats wiped", _only("nats"), wipe),
    Fault("nats slow", _only("all"), _network("nats", Mode.SLOW, 3, 8, delay_s=0.15)),
    Fault("nats partition", _parts, _network("nats", Mode.STALL, PAUSE_S, 30)),
    Fault("nats cut", _parts, _network("nats", Mode.CUT, 3, 15)),
    Fault("nats torn", _parts, _network("nats", Mode.TORN, 2, 5)),
    Fault("s3 partition", _parts, _network("s3", Mode.STALL, PAUSE_S, 30)),
    Fault("s3 down", _only("all"), _network("s3", Mode.CUT, 3, 12)),
    Fault("s3 slow", _only("all"), _network("s3", Mode.SLOW, 3, 8, delay_s=0.1)),
    Fault("s3 busy", _only("all"), _network("s3", Mode.BUSY, 3, 8)),
    Fault("s3 torn", _only("all"), _network("s3", Mode.TORN, 3, 8)),
    Fault("disk full", _disks, fill_disk),
    Fault("model raises", _only(*STAGES), _model("raise")),
    Fault("model out of memory", _only(*STAGES), _model("oom")),
    Fault("model ends its process", _only(*STAGES), _model("die")),
    Fault("model hangs", _only(*STAGES), _model("hang")),
    Fault("duplicate event", _only("all"), duplicate_event),
    Fault("stale event", _only("all"), stale_event),
    Fault("early event", _only("all"), early_event),
    Fault("nonsense event", _only(*STAGES), nonsense_event),
)
BY_NAME = {fault.name: fault for fault in FAULTS}
