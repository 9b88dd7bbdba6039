"""What checkpoints cost: the sampler's time against a step, and bytes against the latents.

    PYTHONPATH=tests python -m bench.checkpoints [--steps 12] [--repeats 3] [--shapes 64x64x17 128x128x33]

The demo model in the real denoise handler, on a real NATS and a real S3 server, on one CPU thread. Runs without a
checkpoint, with one at every tenth step (the default) and with one at every step take turns. Of each boundary between
two steps it is counted how long the sampler stands still there, and of each checkpoint how long its snapshot takes and
how large it is. Servers and upload share the machine with the sampler here: that is in the ratio of the step times.
"""

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from statistics import median
from typing import Any

from servers import running_nats, running_s3
from vitascope.adapters.jetstream import Connection, JetStreamBus, JetStreamLedger, JetStreamRegistry, ensure
from vitascope.adapters.s3 import S3Client, S3ObjectStore, ensure_bucket
from vitascope.catalog import load_catalog
from vitascope.contracts import transitions
from vitascope.contracts.events import make_work_item
from vitascope.contracts.flow import Stage
from vitascope.contracts.ids import make_job_id
from vitascope.contracts.jobs import Admission, Engine, VideoRequest
from vitascope.contracts.pools import GroupRow, GroupState
from vitascope.demo_model import DEMO_MODEL_DIR
from vitascope.denoise.denoiser import OnStep
from vitascope.denoise.group import GroupHeartbeat
from vitascope.denoise.handler import DenoiseHandler
from vitascope.denoise.modular import ModularDenoiser
from vitascope.engine.denoise_model import DenoiseModel
from vitascope.engine.device import limit_threads, parse_dtype
from vitascope.runtime.advance import advance
from vitascope.runtime.ports import SystemClock
from vitascope.runtime.settings import DenoiseSettings, S3Settings
from vitascope.runtime.stage import Pulse

MODEL = "tiny-wan"
DEFAULT_EVERY = 10


@dataclass
class Timing:
    """One run, in seconds and bytes: of every step, every boundary and every snapshot."""

    steps_s: list[float] = field(default_factory=list)
    boundaries_s: list[float] = field(default_factory=list)
    snapshots_s: list[float] = field(default_factory=list)
    checkpoint_bytes: int = 0
    latents_bytes: int = 0


class TimedDenoiser:
    """The real engine, with a clock at both ends of each boundary."""

    def __init__(self, denoiser: ModularDenoiser) -> None:
        self._denoiser = denoiser
        self.timing = Timing()

    def describe(self, model: str) -> Engine:
        """As the real one."""
        return self._denoiser.describe(model)

    def prove(self) -> None:
        """As the real one."""
        self._denoiser.prove()

    def run(self, request: VideoRequest, references: Sequence[bytes], on_step: OnStep, resume: bytes | None) -> bytes:
        """As the real one, into a `Timing` of its own."""
        timing = self.timing = Timing()
        left_s: float | None = None

        def timed(step: int, steps: int, snapshot: Callable[[], bytes]) -> None:
            nonlocal left_s
            came_s = time.perf_counter()
            if left_s is not None:  # the first step has the preparation in it
                timing.steps_s.append(came_s - left_s)
            on_step(step, steps, lambda: time_snapshot(timing, snapshot))
            left_s = time.perf_counter()
            timing.boundaries_s.append(left_s - came_s)

        blob = self._denoiser.run(request, references, timed, resume)
        timing.latents_bytes = len(blob)
        return blob


def time_snapshot(timing: Timing, snapshot: Callable[[], bytes]) -> bytes:
    """Take a snapshot and note what it took."""
    began_s = time.perf_counter()
    blob = snapshot()
    timing.snapshots_s.append(time.perf_counter() - began_s)
    timing.checkpoint_bytes = len(blob)
    return blob


@dataclass(frozen=True)
class World:
    """The servers' ports and the loaded engine."""

    ledger: JetStreamLedger
    bus: JetStreamBus
    store: S3ObjectStore
    group: GroupHeartbeat
    denoiser: TimedDenoiser
    sampler: ThreadPoolExecutor

    async def run(self, shape: str, steps: int, every: int) -> Timing:
        """Denoise one job to its end."""
        clock = SystemClock()
        handler = DenoiseHandler(
            ledger=self.ledger,
            bus=self.bus,
            store=self.store,
            clock=clock,
            denoiser=self.denoiser,
            group=self.group,
            settings=DenoiseSettings(checkpoint_every=every),
            sampler=self.sampler,
        )
        record = transitions.accept(make_job_id(clock.now()), *describe_job(shape, steps), now=clock.now())
        await self.ledger.create(record)
        started = await advance(self.ledger, record.id, lambda current: transitions.start(current, "g0", clock.now()))
        await handler.handle(make_work_item(started.record, Stage.DENOISE), Pulse())
        return self.denoiser.timing


def describe_job(shape: str, steps: int) -> tuple[VideoRequest, Admission]:
    """A job of a shape like 128x128x33."""
    width, height, frames = map(int, shape.split("x"))
    request = VideoRequest(
        tenant="default",
        model=MODEL,
        prompt="a red circle moving right on a white background",
        width=width,
        height=height,
        num_frames=frames,
        fps=Fraction(8),
        num_inference_steps=steps,
        guidance_scale=4.0,
        seed=7,
    )
    return request, Admission(bucket=shape, pool="default", group_size=1, estimated_gpu_s=1.0, price_units=1.0)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--shapes", nargs="+", default=["64x64x17", "128x128x33"])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = asyncio.run(measure(Path(folder), options.shapes, options.steps, options.repeats))
    for shape, row in figures.items():
        print(
            f"{shape}: a checkpoint holds the sampler for {100 * row['held_share']:.1f} % of a step "
            f"(snapshot {100 * row['snapshot_share']:.1f} %), {row['bytes_ratio']:.2f} times the latents' bytes; "
            f"whole run: {row['run_ratio']['default']:.3f} times the time with one every {DEFAULT_EVERY} steps, "
            f"{row['run_ratio']['each step']:.3f} with one at each"
        )
    print(json.dumps(figures))


async def measure(folder: Path, shapes: list[str], steps: int, repeats: int) -> dict[str, Any]:
    """Every shape, the three ways in turns."""
    ways = {"none": steps + 1, "default": DEFAULT_EVERY, "each step": 1}
    figures = {}
    async with world(folder) as running:
        await running.run(shapes[0], 2, 1)
        for shape in shapes:
            runs: dict[str, list[Timing]] = {name: [] for name in ways}
            for _ in range(repeats):
                for name, every in ways.items():
                    runs[name].append(await running.run(shape, steps, every))
            figures[shape] = summarize(runs)
    return figures


def summarize(runs: dict[str, list[Timing]]) -> dict[str, Any]:
    """Medians, and their ratios to a step of a run without checkpoints. The last boundary never has one."""
    step_s = median(each for timing in runs["none"] for each in timing.steps_s)
    idle_s = median(each for timing in runs["none"] for each in timing.boundaries_s)
    held_s = median(each for timing in runs["each step"] for each in timing.boundaries_s[:-1])
    snapshot_s = median(each for timing in runs["each step"] for each in timing.snapshots_s)
    loops_s = {
        name: median(sum(timing.steps_s) + sum(timing.boundaries_s) for timing in timings)
        for name, timings in runs.items()
    }
    last = runs["each step"][-1]
    return {
        "step_s": step_s,
        "held_s": held_s - idle_s,
        "held_share": (held_s - idle_s) / step_s,
        "snapshot_share": snapshot_s / step_s,
        "run_ratio": {name: loop_s / loops_s["none"] for name, loop_s in loops_s.items()},
        "checkpoint_bytes": last.checkpoint_bytes,
        "latents_bytes": last.latents_bytes,
        "bytes_ratio": last.checkpoint_bytes / last.latents_bytes,
    }


@asynccontextmanager
async def world(folder: Path) -> AsyncIterator[World]:
    """Real servers and the demo model."""
    async with (
        running_nats(folder) as nats,
        running_s3(folder) as s3,
        Connection(nats.plain_url, user=nats.user, password=nats.password) as connection,
        S3Client(s3.endpoint, access_key=s3.access_key, secret_key=s3.secret_key, bucket="vitascope") as client,
    ):
        await ensure(connection)
        await ensure_bucket(client, S3Settings().retention)
        clock = SystemClock()
        row = GroupRow(
            pool="default", group="g0", models=(MODEL,), state=GroupState.IDLE, holder="bench", seen=clock.now()
        )
        with ThreadPoolExecutor(1, "sampler") as sampler:
            denoiser = TimedDenoiser(await asyncio.get_running_loop().run_in_executor(sampler, load))
            group = GroupHeartbeat(JetStreamRegistry(connection), clock, row)
            ledger, bus = JetStreamLedger(connection), JetStreamBus(connection)
            yield World(ledger, bus, S3ObjectStore(client), group, denoiser, sampler)


def load() -> ModularDenoiser:
    """The demo model on one thread."""
    limit_threads(1)
    entry = load_catalog(None).get(MODEL)
    assert entry is not None, "the catalog has the demo model"
    return ModularDenoiser({MODEL: DenoiseModel.load(DEMO_MODEL_DIR, dtype=parse_dtype(entry.dtype), device="cpu")})


if __name__ == "__main__":
    main()
