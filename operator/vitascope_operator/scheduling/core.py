"""The pure core: a snapshot in, actions out. No clock, no I/O, no memory.

First come, first served within a line (`QueueKey`): of the jobs that a free group could run, the oldest gets it. A
job waits only for groups that can run it, so a line without a free group does not hold up the others.
"""

from dataclasses import dataclass

from vitascope.contracts.flow import Stage
from vitascope_operator.scheduling.snapshot import FreeGroup, QueuedJob, Snapshot


@dataclass(frozen=True)
class Dispatch:
    """Start a queued job on a group."""

    job: str
    pool: str
    group: str


@dataclass(frozen=True)
class Requeue:
    """Put a running job back into the queue: its group is gone."""

    job: str
    attempt: int
    reason: str
    is_failure: bool = True


@dataclass(frozen=True)
class GiveUp:
    """End a queued job: its start deadline has passed."""

    job: str


@dataclass(frozen=True)
class Repair:
    """Publish the event of a job's present stage again, if it is missing."""

    job: str
    stage: Stage


Action = Dispatch | Requeue | GiveUp | Repair


def plan(snapshot: Snapshot) -> tuple[Action, ...]:
    """Every action that is due, in the order in which it should be done."""
    return (
        *(Requeue(lost.job, lost.attempt, lost.why, lost.is_failure) for lost in snapshot.lost),
        *(GiveUp(job) for job in snapshot.late),
        *_plan_dispatches(snapshot),
        *(Repair(job, stage) for job, stage in snapshot.silent),
    )


def _plan_dispatches(snapshot: Snapshot) -> list[Dispatch]:
    waiting = sorted((job for line in snapshot.queues.values() for job in line), key=lambda queued: queued.job)
    free, late = list(snapshot.free), set(snapshot.late)
    dispatches: list[Dispatch] = []
    for queued in waiting:
        if not free:
            break
        if queued.job in late:
            continue
        group = _pick_group(queued, free)
        if group is not None:
            free.remove(group)
            dispatches.append(Dispatch(queued.job, group.pool, group.group))
    return dispatches


def _pick_group(queued: QueuedJob, free: list[FreeGroup]) -> FreeGroup | None:
    """Of the groups that fit, the one that can do least else, so that the versatile ones stay free."""
    fitting = [group for group in free if group.can_run(queued.key)]
    return min(fitting, key=lambda group: (len(group.models), group.group), default=None)
