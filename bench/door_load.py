"""The door under load: thousands of open event streams, hundreds of new jobs a second, on stages that compute nothing.

    PYTHONPATH=tests python -m bench.door_load [--streams 2000] [--rate 200] [--seconds 5] [--replicas 1]

Everything runs on this machine: the servers, each process of the pipeline, and the clients. First the streams are
opened, several on each of some jobs that wait; then jobs are sent at the given rate, whether or not earlier ones are
answered, so that a slow door cannot slow its own load down. Then all must end: each accepted job, once, and each stream
with the end of its job.
"""

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles
from typing import Any
from urllib.parse import urlsplit

import httpx
import psutil

from faults.plant import Plant, PlantOptions, running_plant

BODY = {"prompt": "a red circle moving right on a white background", "size": "64x64", "frames": 5, "fps": 8, "steps": 1}
WATCHED = 40
"""Jobs that are watched; the streams are spread over them."""
END_S = 900.0
"""So long all jobs may take to end."""
ENDED = {"succeeded", "failed", "cancelled", "refused", "withheld", "expired"}


@dataclass
class Load:
    """What the clients saw."""

    accepted: list[str] = field(default_factory=list)
    answers_s: list[float] = field(default_factory=list)
    refused: dict[int, int] = field(default_factory=dict)
    ended: dict[str, int] = field(default_factory=dict)
    lost: int = 0


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=2000)
    parser.add_argument("--rate", type=int, default=200, help="new jobs a second")
    parser.add_argument("--seconds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = asyncio.run(measure(Path(folder), options.streams, options.rate, options.seconds))
    print(
        f"{figures['accepted']} jobs accepted, {figures['rate']:.0f} a second, under {figures['streams']} streams: "
        f"answers p50 {figures['p50_ms']:.0f} ms, p95 {figures['p95_ms']:.0f} ms, p99 {figures['p99_ms']:.0f} ms; "
        f"door {figures['door_mb']:.0f} MB at most ({figures['idle_mb']:.0f} MB before); refused {figures['refused']}; "
        f"streams without their end {figures['lost']}; ends {figures['ends']}"
    )
    print(json.dumps(figures))


async def measure(folder: Path, streams: int, rate: int, seconds: int) -> dict[str, Any]:
    """Start, load, wait for the ends, count."""
    load = Load()
    async with running_plant(folder, PlantOptions(), 1) as plant:
        limits = httpx.Limits(max_connections=400, max_keepalive_connections=400)
        async with httpx.AsyncClient(base_url=plant.url, timeout=60, limits=limits) as http:
            idle = read_memory(plant)
            watched = [await submit(http, steps=200) for _ in range(WATCHED)]
            following = await open_streams(plant.url, watched, streams, load)
            began = time.monotonic()
            await send(http, rate, seconds, load)
            sent_s = time.monotonic() - began
            peak = read_memory(plant)
            await wait_ended(http, [*watched, *load.accepted], load)
            await asyncio.wait(following, timeout=60)
            for stream in following:
                stream.cancel()
            await asyncio.gather(*following, return_exceptions=True)
    cuts = quantiles(load.answers_s, n=100)
    return {
        "streams": streams,
        "accepted": len(load.accepted),
        "rate": len(load.accepted) / sent_s,
        "p50_ms": 1000 * cuts[49],
        "p95_ms": 1000 * cuts[94],
        "p99_ms": 1000 * cuts[98],
        "idle_mb": idle / 1e6,
        "door_mb": max(peak, idle) / 1e6,
        "refused": load.refused,
        "lost": load.lost,
        "ends": load.ended,
    }


async def submit(http: httpx.AsyncClient, steps: int) -> str:
    """The id of a new job."""
    answer = await http.post("/v1/video-jobs", json=BODY | {"steps": steps})
    answer.raise_for_status()
    return str(answer.json()["id"])


def read_memory(plant: Plant) -> int:
    """Resident bytes of the door."""
    return int(psutil.Process(plant.pid("ingress")).memory_info().rss)


async def open_streams(url: str, jobs: Sequence[str], count: int, load: Load) -> list["asyncio.Task[None]"]:
    """Streams that have had their first event."""
    ready = asyncio.Semaphore(0)
    tasks = [
        asyncio.create_task(follow(url, jobs[number % len(jobs)], ready, load), name=f"stream {number}")
        for number in range(count)
    ]
    for _ in range(count):
        await ready.acquire()
    return tasks


async def follow(url: str, job: str, ready: asyncio.Semaphore, load: Load) -> None:
    """Read one stream to its end; count it as lost if it ends without that of its job."""
    place = urlsplit(url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    writer.write(f"GET /v1/video-jobs/{job}/events HTTP/1.1\r\nhost: {place.netloc}\r\n\r\n".encode())
    is_ended, is_ready = False, False
    try:
        while line := await reader.readline():
            if line.startswith(b"data:"):
                told = json.loads(line[5:])
                is_ended = is_ended or told.get("status") in ENDED
                if not is_ready:
                    is_ready = True
                    ready.release()
            if is_ended:
                break
    finally:
        load.lost += not is_ended
        if not is_ready:
            ready.release()
        writer.close()


async def send(http: httpx.AsyncClient, rate: int, seconds: int, load: Load) -> None:
    """New jobs at an even rate; returns when all are answered."""

    async def one() -> None:
        began = time.perf_counter()
        answer = await http.post("/v1/video-jobs", json=BODY)
        load.answers_s.append(time.perf_counter() - began)
        if answer.status_code == httpx.codes.ACCEPTED:
            load.accepted.append(answer.json()["id"])
        else:
            load.refused[answer.status_code] = load.refused.get(answer.status_code, 0) + 1

    loop, tasks = asyncio.get_running_loop(), []
    began = loop.time()
    for number in range(rate * seconds):
        await asyncio.sleep(max(0.0, began + number / rate - loop.time()))
        tasks.append(asyncio.create_task(one(), name=f"job {number}"))
    await asyncio.gather(*tasks)


async def wait_ended(http: httpx.AsyncClient, jobs: Sequence[str], load: Load) -> None:
    """Every job once it has ended; what has not in time counts as it is."""
    deadline = time.monotonic() + END_S
    while time.monotonic() < deadline:
        states = (await http.get("/v1/queue")).json()["jobs"]
        if sum(states.get(state, 0) for state in ("queued", "running", "decoding", "encoding")) == 0:
            break
        await asyncio.sleep(0.5)
    for job in jobs:
        status = (await http.get(f"/v1/video-jobs/{job}")).json()["status"]
        load.ended[status] = load.ended.get(status, 0) + 1


if __name__ == "__main__":
    main()
