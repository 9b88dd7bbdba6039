"""Jobs as clients send them: with an Idempotency-Key, again until they are answered, and sometimes cancelled."""

import asyncio
import hashlib
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import av
import httpx

from faults.witness import Witness

PROMPT = "a red circle moving right on a white background"
ENDED = frozenset({"succeeded", "failed", "cancelled", "refused", "withheld", "expired"})
ANSWER_DEADLINE_S = 180.0
RETRY_S = 0.3
TIMEOUT = httpx.Timeout(15.0)
AGAIN = frozenset({429, 500, 502, 503, 504})

KINDS: dict[str, dict[str, Any]] = {
    "least": {"size": "64x64", "frames": 5, "steps": 3, "tier": "interactive"},
    "long": {"size": "64x64", "frames": 5, "steps": 16, "tier": "batch"},
    "wide": {"size": "96x64", "frames": 9, "steps": 5, "tier": "standard"},
    "tall": {"size": "64x96", "frames": 17, "steps": 4, "tier": "standard"},
    "clip": {"size": "64x64", "frames": 33, "steps": 6, "tier": "batch"},
    "longer": {"size": "64x64", "frames": 5, "steps": 60, "tier": "batch"},
    "hours": {"size": "64x64", "frames": 5, "steps": 130, "tier": "batch"},
}
"""Different shapes, tiers and stages that take their time."""
DRAWN = ("least", "long", "wide", "tall", "clip")
SEEDS = 2


@dataclass
class Job:
    """A request and what became of it as its client saw it."""

    key: str
    kind: str
    seed: int
    callback_url: str
    id: str = ""
    is_cancelled: bool = False
    final: dict[str, Any] = field(default_factory=dict)

    @property
    def request(self) -> tuple[str, int]:
        """Equal for jobs that must give equal frames."""
        return self.kind, self.seed

    @property
    def body(self) -> dict[str, Any]:
        """What is sent."""
        return {"prompt": PROMPT, "fps": 8, "seed": self.seed, "callback_url": self.callback_url, **KINDS[self.kind]}


class Clients:
    """The users of a pipeline."""

    def __init__(self, url: str, callback_url: str, rng: random.Random, name: str = "job") -> None:
        self._url, self._callback_url, self._rng, self._name = url, callback_url, rng, name
        self.jobs: list[Job] = []
        self.http = httpx.AsyncClient(base_url=url, timeout=TIMEOUT)
        self.refused: list[str] = []

    def draw(self) -> Job:
        """A request by chance."""
        return Job(self._next_key(), self._rng.choice(DRAWN), self._rng.randrange(SEEDS), self._callback_url)

    async def submit(self, kind: str = "", seed: int = 0) -> Job:
        """Send a request until it is answered."""
        job = Job(self._next_key(), kind, seed, self._callback_url) if kind else self.draw()
        self.jobs.append(job)
        answer = await self.call("POST", "/v1/video-jobs", json=job.body, headers={"Idempotency-Key": job.key})
        job.id = answer["id"]
        return job

    async def call(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        """An answer of the API; through outages. An answer that would be the same again raises."""
        deadline = time.monotonic() + ANSWER_DEADLINE_S
        why = ""
        while time.monotonic() < deadline:
            try:
                response = await self.http.request(method, path, **options)
                if response.status_code not in AGAIN:
                    response.raise_for_status()
                    answer: dict[str, Any] = response.json()
                    return answer
                why = response.text
            except httpx.TransportError as error:
                why = repr(error)
            await asyncio.sleep(RETRY_S)
        raise AssertionError(f"{method} {path} not answered within {ANSWER_DEADLINE_S:g} s: {why}")

    async def get(self, job: Job) -> dict[str, Any]:
        """The job as it is now."""
        return await self.call("GET", f"/v1/video-jobs/{job.id}")

    async def cancel(self, job: Job) -> dict[str, Any] | None:
        """Cancel a job; None if it has ended already."""
        try:
            answer = await self.call("POST", f"/v1/video-jobs/{job.id}/cancel")
        except httpx.HTTPStatusError as error:
            if error.response.status_code != httpx.codes.CONFLICT:
                raise
            return None
        job.is_cancelled = True
        return answer

    async def wait(
        self, job: Job, until: Callable[[dict[str, Any]], bool] | None = None, deadline_s: float = 120.0
    ) -> dict[str, Any]:
        """The job when it has ended, or when `until` holds of it."""
        wanted = until or (lambda state: state["status"] in ENDED)
        deadline, state = time.monotonic() + deadline_s, {}
        while time.monotonic() < deadline:
            state = await self.get(job)
            if wanted(state):
                return state
            assert state["status"] not in ENDED, f"ended before it was as wanted: {state}"
            await asyncio.sleep(0.05)
        raise AssertionError(f"not as wanted within {deadline_s:g} s: {state}")

    async def run(
        self,
        count: int,
        in_flight: int,
        cancel_share: float = 0.08,
        more: Callable[[], bool] = lambda: False,
    ) -> None:
        """Send so many jobs, and further ones while `more` says so; some are cancelled on the way.

        At most `in_flight` of them are unfinished at a time.
        """
        room = asyncio.Semaphore(in_flight)

        async def one() -> None:
            try:
                job = await self.submit()
                if self._rng.random() < cancel_share:
                    await asyncio.sleep(self._rng.random() * 6)
                    await self.cancel(job)
                await self.wait(job, deadline_s=600)
            finally:
                room.release()

        async with asyncio.TaskGroup() as tasks:
            sent = 0
            while sent < count or more():
                await room.acquire()
                tasks.create_task(one())
                sent += 1

    async def collect(self) -> None:
        """Read how every job ended, again and from the door."""
        for job in self.jobs:
            job.final = await self.get(job)

    async def content(self, job: Job) -> bytes:
        """The finished video."""
        response = await self.http.get(f"/v1/video-jobs/{job.id}/content")
        response.raise_for_status()
        return response.content

    def _next_key(self) -> str:
        return f"{self._name}-{len(self.jobs):05d}-{self._rng.getrandbits(40):010x}"


class References:
    """The frames of every distinct request, from runs without a fault."""

    def __init__(self) -> None:
        self.frames: dict[tuple[str, int], str] = {}

    async def make(self, clients: Clients, kinds: Sequence[str] = DRAWN) -> None:
        """Run each distinct request once."""
        jobs = [await clients.submit(kind, seed) for kind in kinds for seed in range(SEEDS)]
        for job in jobs:
            final = await clients.wait(job)
            assert final["status"] == "succeeded", final
            self.frames[job.request] = digest_frames(await clients.content(job))
        assert len(set(self.frames.values())) == len(jobs), "every request has frames of its own"


def digest_frames(content: bytes) -> str:
    """SHA-256 over all frames as RGB."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "video.mp4"
        path.write_bytes(content)
        digest = hashlib.sha256()
        with av.open(str(path)) as container:
            for frame in container.decode(video=0):
                digest.update(frame.to_ndarray(format="rgb24").tobytes())
    return digest.hexdigest()


async def wait_all_ended(clients: Clients, witness: Witness, deadline_s: float) -> list[str]:
    """Wait until every accepted job has ended; the ids of those that have not."""
    deadline = time.monotonic() + deadline_s
    while True:
        records = witness.seen.newest_records()
        open_ones = [job.id for job in clients.jobs if records.get(job.id, {}).get("run", {}).get("state") not in ENDED]
        if not open_ones or time.monotonic() > deadline:
            return open_ones
        await asyncio.sleep(0.3)
