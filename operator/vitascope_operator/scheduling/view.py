"""The dispatcher's picture of the fleet, kept up to date change by change; a change costs O(log n)."""

import heapq
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from vitascope.contracts.flow import STAGE_OF, State
from vitascope.contracts.jobs import JobRecord
from vitascope.contracts.pools import GroupRow, GroupState
from vitascope.contracts.subjects import group_key
from vitascope.runtime.ports import Stamped
from vitascope_operator.scheduling.snapshot import AssignedJob, FreeGroup, QueuedJob, QueueKey, Snapshot

REPAIR_AFTER_S = 10.0
"""A live record unchanged for so long is checked for its event. The check is one read, so it may be frequent."""
LATE_AGAIN_S = 1.0
"""A job past its start deadline is reported again after so long, until it is given up: the ledger may have refused."""


@dataclass
class FleetView:
    """Jobs and groups as last heard of.

    Attributes:
        group_lease_s: a group that is silent for so long is lost.
        since: when this view began to listen: a group not heard of is given the lease time from then on.
    """

    group_lease_s: float
    since: datetime
    _live: dict[str, Stamped] = field(default_factory=dict)
    _lines: dict[QueueKey, list[str]] = field(default_factory=lambda: defaultdict(list))
    _timers: list[tuple[datetime, str]] = field(default_factory=list)
    _check_at: dict[str, datetime] = field(default_factory=dict)
    _rows: dict[str, tuple[GroupRow, datetime]] = field(default_factory=dict)
    _on_group: dict[str, set[str]] = field(default_factory=dict)
    _orphaned: dict[str, tuple[str, bool]] = field(default_factory=dict)

    # ---- news -------------------------------------------------------------------------------------------------------
    def note_job(self, stamped: Stamped, now: datetime) -> None:
        """A record as the ledger holds it; what is known already changes nothing."""
        record, known = stamped.record, self._live.get(stamped.record.id)
        if known is not None and known.revision >= stamped.revision:
            return
        if known is not None:
            self._leave_group(known.record)
        self._orphaned.pop(record.id, None)
        if record.is_terminal:
            self._live.pop(record.id, None)
            self._check_at.pop(record.id, None)
            return
        self._live[record.id] = stamped
        if record.state is State.QUEUED:
            self._check_at.pop(record.id, None)
            self._enqueue(record, now)
        else:
            self._check_later(record.id, now)
        if record.state is State.RUNNING:
            self._on_group.setdefault(_group_of(record), set()).add(record.id)

    def note_group(self, row: GroupRow, now: datetime) -> None:
        """A group's row; another holder under the same name means that what the old one ran is lost."""
        name = group_key(row.pool, row.group)
        before = self._rows.get(name)
        if before is not None and before[0].holder != row.holder:
            self._orphan(name, "its GPU group restarted")
        self._rows[name] = (row, now)

    def note_group_gone(self, name: str) -> None:
        """A group that took its row away: what it has not handed back goes to another, and nobody is to blame."""
        self._rows.pop(name, None)
        self._orphan(name, "its GPU group left", is_failure=False)

    def forgive(self, now: datetime) -> None:
        """We were cut off and heard nobody: every group is given the lease time anew before it counts as silent."""
        self.since = now
        self._rows = {name: (row, now) for name, (row, _) in self._rows.items()}
        self._orphaned.clear()

    # ---- questions --------------------------------------------------------------------------------------------------
    def get(self, job: str) -> Stamped | None:
        """The newest record of a live job."""
        return self._live.get(job)

    def snapshot(self, now: datetime) -> Snapshot:
        """What the core needs to decide now."""
        self._forget_silent_groups(now)
        free = tuple(sorted(self._free_groups(), key=lambda group: (group.pool, group.group)))
        due, silent = self._pop_due(now), self._pop_silent(now)
        lines = {key: self._head(key, len(free), now) for key in self._lines} if free else {}
        return Snapshot(
            queues={key: line for key, line in lines.items() if line},
            free=free,
            late=self._note_late(due, now),
            lost=tuple(self._lost(now)),
            silent=tuple((job, STAGE_OF[self._live[job].record.state]) for job in silent),
        )

    def next_due(self, now: datetime) -> datetime | None:
        """When to look again if nothing is heard before; None if only news can change anything."""
        leases = [seen + timedelta(seconds=self.group_lease_s) for name, (_, seen) in self._rows.items()]
        if any(name not in self._rows for name in self._on_group):
            leases.append(self.since + timedelta(seconds=self.group_lease_s))
        timers = [self._timers[0][0]] if self._timers else []
        timers += [next(iter(self._check_at.values()))] if self._check_at else []
        return max(min(leases + timers), now) if leases or timers else None

    # ---- parts ------------------------------------------------------------------------------------------------------
    def _enqueue(self, record: JobRecord, now: datetime) -> None:
        heapq.heappush(self._lines[_key_of(record)], record.id)
        for at in (record.run.not_before, record.run.start_deadline):
            if at is not None:
                heapq.heappush(self._timers, (max(at, now), record.id))

    def _leave_group(self, record: JobRecord) -> None:
        name = _group_of(record)
        jobs = self._on_group.get(name, set())
        jobs.discard(record.id)
        if not jobs:
            self._on_group.pop(name, None)

    def _check_later(self, job: str, now: datetime) -> None:
        # Taken out first, so that the dict stays in the order of the times.
        self._check_at.pop(job, None)
        self._check_at[job] = now + timedelta(seconds=REPAIR_AFTER_S)

    def _pop_silent(self, now: datetime) -> list[str]:
        silent: list[str] = []
        while self._check_at and next(iter(self._check_at.values())) <= now:
            job = next(iter(self._check_at))
            self._check_later(job, now)
            if not self._is_at_work(job):
                silent.append(job)
        return silent

    def _pop_due(self, now: datetime) -> list[str]:
        due: dict[str, None] = {}
        while self._timers and self._timers[0][0] <= now:
            due[heapq.heappop(self._timers)[1]] = None
        return [job for job in due if job in self._live]

    def _note_late(self, due: list[str], now: datetime) -> tuple[str, ...]:
        late = tuple(job for job in due if self._is_late(job, now))
        for job in late:
            heapq.heappush(self._timers, (now + timedelta(seconds=LATE_AGAIN_S), job))
        return late

    def _head(self, key: QueueKey, count: int, now: datetime) -> tuple[QueuedJob, ...]:
        """The first startable jobs of a line; entries that no longer wait there are dropped on the way."""
        line, head, kept, last = self._lines[key], list[QueuedJob](), list[str](), ""
        while line and len(head) < count:
            job = heapq.heappop(line)
            stamped = self._live.get(job)
            if job == last or stamped is None or stamped.record.state is not State.QUEUED:
                continue
            last = job
            kept.append(job)
            if _is_startable(stamped.record, now) and not self._is_late(job, now):
                head.append(QueuedJob(job, key, stamped.record.run.start_deadline))
        for job in kept:
            heapq.heappush(line, job)
        return tuple(head)

    def _free_groups(self) -> list[FreeGroup]:
        return [
            FreeGroup(row.pool, row.group, row.size, frozenset(row.models))
            for name, (row, _) in self._rows.items()
            if row.state is GroupState.IDLE and self._on_group.get(name, set()) <= set(row.finishing)
        ]

    def _forget_silent_groups(self, now: datetime) -> None:
        oldest = now - timedelta(seconds=self.group_lease_s)
        for name in [name for name, (_, seen) in self._rows.items() if seen <= oldest]:
            del self._rows[name]
            self._orphan(name, f"its GPU group was silent for {self.group_lease_s:g} s")

    def _orphan(self, name: str, why: str, *, is_failure: bool = True) -> None:
        for job in self._on_group.get(name, ()):
            self._orphaned.setdefault(job, (why, is_failure))

    def _lost(self, now: datetime) -> list[AssignedJob]:
        if now >= self.since + timedelta(seconds=self.group_lease_s):
            for name in [name for name in self._on_group if name not in self._rows]:
                self._orphan(name, "its GPU group is not there")
        lost = [(self._live[job].record, *loss) for job, loss in self._orphaned.items() if job in self._live]
        return [
            AssignedJob(record.id, record.run.attempt, record.run.group or "", why, is_failure)
            for record, why, is_failure in lost
        ]

    def _is_late(self, job: str, now: datetime) -> bool:
        record = self._live[job].record
        deadline = record.run.start_deadline
        return (
            record.state is State.QUEUED and record.times.started is None and deadline is not None and deadline <= now
        )

    def _is_at_work(self, job: str) -> bool:
        """Whether a group says itself that it works on the job."""
        record = self._live[job].record
        seen = self._rows.get(_group_of(record))
        return record.state is State.RUNNING and seen is not None and seen[0].job == job


def _key_of(record: JobRecord) -> QueueKey:
    return QueueKey(record.admission.pool, record.admission.group_size, record.request.model)


def _group_of(record: JobRecord) -> str:
    return group_key(record.admission.pool, record.run.group or "")


def _is_startable(record: JobRecord, now: datetime) -> bool:
    return record.run.not_before is None or record.run.not_before <= now
