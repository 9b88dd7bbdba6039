"""How fast a group is given up, and how fast a job goes on elsewhere: on a whole pipeline with two groups.

    PYTHONPATH=tests python -m bench.preemption [--repeats 3] [--size 128x128] [--frames 33] [--steps 40]

Each figure has its yardstick from the same run beside it: the mean step (a group is given up at the end of the running
step, so what counts is the time beyond one), the lease (after which a silent group is lost), the time until a killed
NATS server listens again. One denoise thread a group.
"""

import argparse
import asyncio
import json
import socket
import tempfile
import time
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlsplit

import httpx
from bench.fleet_watch import LIMIT_S, FleetWatch, nats_url, watching

from pipeline import POLL_S, Up, running_up
from vitascope.contracts.pools import LEASE_S

Figures = dict[str, float]
SETTLED_STEP = 3
"""A job is under way for good after so many steps."""
GROUPS = 2
WINNER = {"size": "64x64", "frames": 5, "steps": 2}


class Trial:
    """One measurement after the other on one pipeline."""

    def __init__(self, up: Up, watch: FleetWatch, shape: dict[str, Any]) -> None:
        self._up, self._watch, self._shape = up, watch, shape
        self._seed = 0

    async def preempt(self) -> Figures:
        """From the request to a free group, and to the winner's first step; the loser goes on afterwards."""
        loser, other = await self._begin(), await self._begin()  # both groups are taken, so that the winner waits
        winner = await self._submit(**WINNER)
        step_s = self._step_s(loser)
        asked = time.time()
        await self._call("POST", f"/v1/video-jobs/{loser}/preempt")
        freed = await self._watch.until(lambda: not self._watch.is_sampling(loser))
        done = await asyncio.to_thread(self._up.wait, winner)
        first_step = datetime.fromisoformat(self._record(winner)["times"]["first_step"]).timestamp()
        assert done["status"] == "succeeded", done
        await self._cancel(loser, other)
        return {"step_s": step_s, "free_s": freed - asked, "winner_first_step_s": first_step - asked}

    async def cancel(self) -> Figures:
        """From the request to a free group."""
        job = await self._begin()
        step_s = self._step_s(job)
        asked = time.time()
        await self._call("POST", f"/v1/video-jobs/{job}/cancel")
        freed = await self._watch.until(lambda: not self._watch.is_sampling(job))
        await self._watch.until(lambda: self._watch.count_idle() == GROUPS)
        return {"step_s": step_s, "free_s": freed - asked}

    async def kill(self) -> Figures:
        """From SIGKILL of a denoise process to a step beyond the checkpoint on the other group."""
        job = await self._begin()
        step_s, group = self._step_s(job), self._watch.group_of(job)
        name = "denoise" if group == "g0" else f"denoise{group.removeprefix('g')}"
        killed = time.time()
        await asyncio.to_thread(self._kill, name)
        await self._watch.until(lambda: self._watch.is_sampling(job, but_for=group))
        await self._watch.until(lambda: self._watch.step_of(job, attempt=2) >= 0)
        begun = self._watch.step_of(job, attempt=2)
        went_on = await self._watch.until(lambda: self._watch.step_of(job, attempt=2) > begun)
        await self._cancel(job)
        return {"step_s": step_s, "next_step_s": went_on - killed}

    async def restart_nats(self) -> Figures:
        """From SIGKILL of the NATS server, which the supervisor starts again, to new work."""
        job = await self._begin()
        killed = time.time()
        await asyncio.to_thread(self._kill, "nats")
        listening = await asyncio.to_thread(self._wait_listening)
        accepted_job = await self._submit_until_accepted(**WINNER)
        accepted = time.time()
        done = await asyncio.to_thread(self._up.wait, accepted_job)
        assert done["status"] == "succeeded", done
        first_step = datetime.fromisoformat(self._record(accepted_job)["times"]["first_step"]).timestamp()
        await self._cancel(job)
        return {
            "nats_listens_s": listening - killed,
            "accepted_s": accepted - killed,
            "first_step_s": first_step - killed,
        }

    async def count_writes(self, jobs: int) -> Figures:
        """Ledger writes of an undisturbed job."""
        before = await self._watch.count_ledger_writes()
        for job in [await self._submit(**WINNER) for _ in range(jobs)]:
            assert (await asyncio.to_thread(self._up.wait, job))["status"] == "succeeded"
        return {"writes_a_job": (await self._watch.count_ledger_writes() - before) / jobs}

    async def _begin(self) -> str:
        """A long job that has been in the sampler for some steps, on a pipeline that has a group to spare for it."""
        await self._watch.until(lambda: self._watch.count_idle() > 0)
        job = await self._submit(**self._shape)
        await self._watch.until(lambda: self._watch.step_of(job) >= SETTLED_STEP)
        return job

    async def _submit(self, **shape: Any) -> str:
        self._seed += 1
        return str((await asyncio.to_thread(self._up.submit, **shape, seed=self._seed))["id"])

    async def _submit_until_accepted(self, **shape: Any) -> str:
        async with asyncio.timeout(LIMIT_S):
            while True:
                try:
                    return await self._submit(**shape)
                except httpx.HTTPError:
                    await asyncio.sleep(POLL_S)

    async def _call(self, method: str, path: str) -> None:
        await asyncio.to_thread(self._up.call, method, path)

    async def _cancel(self, *jobs: str) -> None:
        for job in jobs:
            await self._call("POST", f"/v1/video-jobs/{job}/cancel")
        await self._watch.until(lambda: self._watch.count_idle() == GROUPS)

    def _step_s(self, job: str) -> float:
        step_s = self._watch.progress[job].step_s
        assert step_s is not None, "some steps are done"
        return step_s

    def _record(self, job: str) -> dict[str, Any]:
        return self._up.stored_record(job)

    def _kill(self, name: str) -> None:
        """End a process, and wait until it has gone: a dying server still takes connections."""
        child = self._up.children()[name]
        child.kill()
        child.wait(timeout=LIMIT_S)

    def _wait_listening(self) -> float:
        address = urlsplit(nats_url(self._up))
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            try:
                socket.create_connection((address.hostname or "", address.port or 0), timeout=1).close()
            except OSError:
                time.sleep(0.005)
            else:
                return time.time()
        raise AssertionError("the NATS server does not come back")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--size", default="128x128")
    parser.add_argument("--frames", type=int, default=33)
    parser.add_argument("--steps", type=int, default=40)
    options = parser.parse_args()
    shape = {"size": options.size, "frames": options.frames, "steps": options.steps}
    threads = {f"VITASCOPE_{stage}__THREADS": "1" for stage in ("DENOISE", "DECODE", "ENCODE")}
    with (
        tempfile.TemporaryDirectory() as folder,
        running_up(Path(folder) / "up", "--groups", str(GROUPS), **threads) as up,
    ):
        figures = asyncio.run(measure(up, shape, options.repeats))
    report(figures)
    print(json.dumps(figures))


async def measure(up: Up, shape: dict[str, Any], repeats: int) -> dict[str, Figures]:
    """The medians of each trial."""
    async with watching(up) as watch:
        trial = Trial(up, watch, shape)
        await asyncio.to_thread(up.wait, (await asyncio.to_thread(up.submit, **WINNER))["id"])
        figures = {"ledger": await trial.count_writes(3 * repeats)}
        trials: dict[str, Callable[[], Awaitable[Figures]]] = {
            "preempt": trial.preempt,
            "cancel": trial.cancel,
            "kill": trial.kill,
            "nats": trial.restart_nats,
        }
        for name, act in trials.items():
            runs = [await act() for _ in range(repeats)]
            figures[name] = {key: median(run[key] for run in runs) for key in runs[0]}
    return figures


def report(figures: dict[str, Figures]) -> None:
    """As text, each beside its yardstick."""
    preempt, cancel, kill, nats = (figures[name] for name in ("preempt", "cancel", "kill", "nats"))
    print(f"preempt to a free group: {preempt['free_s']:.3f} s = {preempt['free_s'] / preempt['step_s']:.2f} steps")
    print(f"  beyond one step: {1000 * (preempt['free_s'] - preempt['step_s']):.0f} ms")
    print(f"preempt to the winner's first step: {preempt['winner_first_step_s']:.3f} s")
    print(f"cancel to a free group: {cancel['free_s']:.3f} s = {cancel['free_s'] / cancel['step_s']:.2f} steps")
    print(
        f"SIGKILL to the next step elsewhere: {kill['next_step_s']:.2f} s = {kill['next_step_s'] / LEASE_S:.2f} leases"
    )
    print(
        f"NATS killed: listens after {nats['nats_listens_s']:.2f} s, accepts after {nats['accepted_s']:.2f} s, "
        f"that job's first step after {nats['first_step_s']:.2f} s"
    )
    print(f"ledger writes a job: {figures['ledger']['writes_a_job']:.2f}")


if __name__ == "__main__":
    main()
