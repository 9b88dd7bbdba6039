"""What a run showed, for people and for programs."""

import json
from collections import Counter, defaultdict
from dataclasses import asdict, dataclass
from typing import Any

from faults.evidence import Evidence
from faults.invariants import Violation
from faults.workload import KINDS


@dataclass(frozen=True)
class Report:
    """The figures of a run and whatever was not as it must be."""

    seed: int
    wall_s: float
    jobs: dict[str, int]
    faults: dict[str, int]
    fault_s: float
    attempts: dict[str, int]
    steps_needed: int
    steps_bought: int
    violations: list[dict[str, str]]

    @property
    def is_clean(self) -> bool:
        """Whether every invariant held."""
        return not self.violations

    def to_json(self) -> str:
        """For programs."""
        return json.dumps({**asdict(self), "is_clean": self.is_clean}, indent=1)

    def to_text(self) -> str:
        """For people."""
        share = 100 * (self.steps_bought / max(self.steps_needed, 1) - 1)
        totals = (
            f"seed {self.seed}: {sum(self.jobs.values())} jobs and {sum(self.faults.values())} faults "
            f"in {self.wall_s:.0f} s, faults lasting {self.fault_s:.0f} s"
        )
        lines = [
            totals,
            "jobs      " + _counts(self.jobs),
            "attempts  " + _counts(self.attempts),
            "faults    " + _counts(self.faults),
            f"steps     {self.steps_needed} needed, {self.steps_bought} bought: {share:.1f} % more",
        ]
        lines += [f"BROKEN    {v['invariant']}: {v['job']}: {v['what']}" for v in self.violations]
        return "\n".join([*lines, "clean" if self.is_clean else f"{len(self.violations)} violations"])


def make_report(seed: int, evidence: Evidence, violations: list[Violation], wall_s: float) -> Report:
    """The figures of a run."""
    bought: dict[str, int] = defaultdict(int)
    furthest: dict[str, int] = defaultdict(int)
    for entry in evidence.journal:
        if entry["kind"] == "step":
            bought[entry["job"]] += 1
            furthest[entry["job"]] = max(furthest[entry["job"]], entry["step"])
    needed = sum(
        KINDS[job.kind]["steps"] if job.final["status"] == "succeeded" else furthest[job.id] for job in evidence.jobs
    )
    return Report(
        seed=seed,
        wall_s=wall_s,
        jobs=_sorted(Counter(job.final["status"] for job in evidence.jobs)),
        faults=_sorted(Counter(f"{span.name} {span.target}" for span in evidence.spans)),
        fault_s=sum(span.ended - span.began for span in evidence.spans),
        attempts=_sorted(Counter(str(job.final["attempt"]) for job in evidence.jobs)),
        steps_needed=needed,
        steps_bought=sum(bought.values()),
        violations=[asdict(violation) for violation in violations],
    )


def _sorted(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items()))


def _counts(counts: dict[str, Any]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or "none"
