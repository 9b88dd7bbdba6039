"""What the core decides on."""

from dataclasses import dataclass
from datetime import datetime

from vitascope.contracts.flow import Stage


@dataclass(frozen=True, order=True)
class QueueKey:
    """Jobs that can run on the same groups wait in one line."""

    pool: str
    group_size: int
    model: str


@dataclass(frozen=True)
class QueuedJob:
    """A job that could start now. Ids sort by the time of acceptance."""

    job: str
    key: QueueKey
    start_deadline: datetime | None = None


@dataclass(frozen=True)
class FreeGroup:
    """A group whose GPUs wait for work."""

    pool: str
    group: str
    size: int
    models: frozenset[str]

    def can_run(self, key: QueueKey) -> bool:
        """Whether jobs of that line fit this group."""
        return (self.pool, self.size) == (key.pool, key.group_size) and key.model in self.models


@dataclass(frozen=True)
class AssignedJob:
    """A running job whose group is no longer there for it.

    Attributes:
        job: its id.
        attempt: its present attempt.
        group: the group.
        why: what became of the group, in words.
        is_failure: whether the job may be to blame; not if the group took its leave.
    """

    job: str
    attempt: int
    group: str
    why: str
    is_failure: bool = True


@dataclass(frozen=True)
class Snapshot:
    """Everything that may change now.

    Attributes:
        queues: the first jobs of each line, in the order of acceptance; at least as many as there are free groups.
        free: the free groups, in the order of their names.
        late: queued jobs whose start deadline has passed.
        lost: running jobs whose group is gone.
        silent: jobs whose record has not changed for so long that their event may be missing, with the stage.
    """

    queues: dict[QueueKey, tuple[QueuedJob, ...]]
    free: tuple[FreeGroup, ...]
    late: tuple[str, ...] = ()
    lost: tuple[AssignedJob, ...] = ()
    silent: tuple[tuple[str, Stage], ...] = ()
