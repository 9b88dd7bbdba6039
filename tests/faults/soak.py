"""`python -m faults.soak`: hundreds of jobs under hundreds of faults drawn from a seed, then every invariant.

Prints its seed and a report; the same report as JSON lies beside the logs. The exit status is 1 if an invariant is
broken.
"""

import argparse
import asyncio
import logging
import random
import sys
import time
from pathlib import Path
from tempfile import mkdtemp

import structlog

from faults.evidence import gather
from faults.injectors import FAULTS, Fault, Scene
from faults.invariants import check_all
from faults.plant import PlantOptions, running_plant
from faults.report import Report, make_report
from faults.witness import Witness
from faults.workload import Clients, References, wait_all_ended

GAP_S = (0.3, 2.5)
"""Between two faults."""
LAST_S = 240.0
"""So long the last jobs may take once the last fault is over."""


def main() -> None:
    """Run one soak; see the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6), help="default: drawn")
    parser.add_argument("--jobs", type=int, default=500, help="at least so many jobs")
    parser.add_argument("--faults", type=int, default=200, help="so many faults")
    parser.add_argument("--in-flight", type=int, default=6, help="jobs that are unfinished at a time")
    parser.add_argument("--engine", choices=("quick", "real"), default="quick", help="the model")
    parser.add_argument("--mutation", default="", help="a bug of startup/fault_mutations.py, to see the harness fail")
    parser.add_argument("--only", default="", help="names of faults, separated by commas; all if absent")
    parser.add_argument("--small-disks", action="store_true", help="fill disks, too; needs leave to mount")
    parser.add_argument("--out", type=Path, help="folder of data, logs and report; a temporary one if absent")
    given = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    out = given.out or Path(mkdtemp(prefix="vitascope-soak-"))
    print(f"seed {given.seed}: {given.jobs} jobs, {given.faults} faults, in {out}", flush=True)  # noqa: T201 (a command)
    report = asyncio.run(soak(given, out))
    (out / "report.json").write_text(report.to_json())
    print(report.to_text(), flush=True)  # noqa: T201 (a command)
    sys.exit(0 if report.is_clean else 1)


async def soak(given: argparse.Namespace, out: Path) -> Report:
    """Start, disturb, let it come to rest, judge."""
    began = time.monotonic()
    rng = random.Random(given.seed)
    options = PlantOptions(engine=given.engine, mutation=given.mutation, small_disks=given.small_disks)
    async with running_plant(out / "plant", options, given.seed) as plant, Witness(plant.nats_url) as witness:
        clients = Clients(plant.url, plant.receiver.url, random.Random(rng.random()), f"soak-{given.seed}")
        references = References()
        await references.make(clients)
        scene = Scene(plant, witness, clients, references, random.Random(rng.random()))
        playing = asyncio.create_task(play_all(scene, given.faults, given.only), name="faults")
        try:
            await clients.run(given.jobs, given.in_flight, more=lambda: not playing.done())
            await playing
        finally:
            playing.cancel()
            await asyncio.gather(playing, return_exceptions=True)
        await wait_all_ended(clients, witness, LAST_S)
        evidence = await gather(plant, clients, witness, references, scene.spans)
        return make_report(given.seed, evidence, check_all(evidence), time.monotonic() - began)


async def play_all(scene: Scene, count: int, only: str = "") -> None:
    """Play so many faults one after the other, every kind at every target before any comes again."""
    deck: list[tuple[Fault, str]] = []
    names = set(filter(None, only.split(",")))
    for _ in range(count):
        if not deck:
            deck = [(f, target) for f in FAULTS for target in f.targets(scene.plant) if not names or f.name in names]
            scene.rng.shuffle(deck)
        fault, target = deck.pop()
        span = await scene.play(fault, target)
        took_s = span.ended - span.began
        print(f"{len(scene.spans):4d} {fault.name} {target} {took_s:.1f} s", flush=True)  # noqa: T201 (a command)
        await scene.hold(*GAP_S)


if __name__ == "__main__":
    main()
