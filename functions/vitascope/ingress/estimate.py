"""When a queued job starts, and why it waits: pure, from its place in the queue and the groups that are there."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from statistics import median

from vitascope.contracts.pools import GroupRow, GroupState
from vitascope.runtime.job_index import QueuePlace


def compute_start(place: QueuePlace, groups: Sequence[GroupRow], now: datetime) -> datetime | None:
    """The expected start: the GPU-seconds ahead, shared by all GPUs of the pool's live groups.

    Simple and honest rather than exact: it takes the queue to be worked off first come first served, with every GPU
    busy. None if no group is there: nobody knows when one will be.
    """
    gpus = sum(group.size for group in groups)
    if gpus == 0:
        return None
    is_free = any(group.state is GroupState.IDLE for group in groups)
    if place.position == 1 and is_free:
        return now
    return now + timedelta(seconds=place.gpu_s_ahead / gpus)


def measure_step(groups: Sequence[GroupRow], model: str, bucket: str) -> float | None:
    """Seconds a step of that shape takes: the median of what live groups with that model measured; None if none did."""
    measured = [row.step_s[bucket] for row in groups if model in row.models and bucket in row.step_s]
    return median(measured) if measured else None


def explain_wait(place: QueuePlace, groups: Sequence[GroupRow], pool: str) -> str:
    """Why a queued job has not started, in words."""
    if not groups:
        return f"No GPU group of the pool {pool} is up; the job starts when one is."
    if place.position == 1:
        return "The job is next and starts as soon as a GPU group is free."
    ahead = place.position - 1
    return f"{ahead} {'job is' if ahead == 1 else 'jobs are'} ahead in the queue."
